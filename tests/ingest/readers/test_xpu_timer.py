"""xpu_timer timelines, made byte by byte after hook.proto: no real one can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.readers.tables.finished_collectives import UNMATCHED_SEQ
from tests.reader_results import Imported

T0_US = 1752867229235059
MATMUL, COLLECTIVE, MEMORY = 0, 1, 2


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """A protobuf; zeros are left out, as proto3 does."""
    found = b""
    for number, value in fields:
        if isinstance(value, bytes):
            found += varint(number << 3 | 2) + varint(len(value)) + value
        elif value:
            found += varint(number << 3) + varint(value)
    return found


def kernel(kind: int, code: int, start: int, dur: int, *more: tuple[int, int | bytes]) -> bytes:
    return message((1, kind), (2, code), (3, T0_US + start), (4, dur), *more)


def nccl(comm: int, seq: int, ranks: int = 2, side: int = 0) -> tuple[int, bytes]:
    sizes = message((1, 24), (1, 1), (2, 512))
    return 9, sizes + message(
        (3, comm), (4, 4096), (5, b"BFloat16"), (6, ranks), (8, seq), (10, side)
    )


def host(name: bytes, start: int, dur: int, *more: tuple[int, int | bytes]) -> bytes:
    return message((1, T0_US + start), (2, dur), (3, name), *more)


def timeline(rank: int, kernels: list[bytes], hosts: list[bytes] = []) -> bytes:  # noqa: B006
    parts = [(1, one) for one in kernels] + [(2, one) for one in hosts]
    return message(*parts, (3, 4711), (4, rank))


META = """7,xpu_timer_Gemm,weird
8,xpu_timer_NcclCoreKernel_AllReduce_Sum
9,copy
10,xpu_timer_NcclSendRecv
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def test_kernels_hosts_and_collectives(folder: Path, runs: Path) -> None:
    for rank in (0, 1):
        kernels = [
            kernel(MATMUL, 7, 10, 5, (5, 3), (7, message((1, 4)))),
            kernel(COLLECTIVE, 8, 20 + rank, 9, (5, 4), nccl(0xABCDEF0123456789, 12)),
            kernel(COLLECTIVE, 10, 40, 2, nccl(5, 3, ranks=9, side=2)),
            kernel(MEMORY, 9, 50, 1, (10, message((1, 1024)))),
        ]
        hosts = [host(b"GC", 60, 7, (5, message((1, 3)))), host(b"torch@x", 70, 1)]
        path = folder / f"0000{rank}-00002.timeline"
        path.write_bytes(timeline(rank, kernels, hosts))
        (folder / f"{path.name}.meta").write_text(META)
    run = Imported(folder, into=runs)
    assert run.info["source"] == "xpu_timer"
    assert run.problems == []
    assert {info["world_size"] for info in run.ranks.values()} == {2}
    assert run.ranks[1]["pid"] == 4711
    columns = ("ts_ns", "dur_ns", "kind", "name", "track", "num_bytes")
    at = T0_US * 1000
    assert run.rows("spans", *columns)[:6] == [
        (at + 10_000, 5_000, "kernel", "Gemm,weird", "GPU kernel", -1),
        (at + 20_000, 9_000, "other_comm", "NcclCoreKernel_AllReduce_Sum", "GPU other_comm", 4096),
        (at + 40_000, 2_000, "other_comm", "NcclSendRecv", "GPU other_comm", 4096),
        (at + 50_000, 1_000, "memcpy", "copy", "GPU memcpy", 1024),
        (at + 60_000, 7_000, "gc", "GC", "host", -1),
        (at + 70_000, 1_000, "host", "torch.x", "host", -1),
    ]
    columns = ("rank", "op", "seq", "dtype", "num_bytes", "enqueue_ns", "start_ns", "end_ns")
    assert run.rows("collectives", *columns) == [
        row
        for rank in (0, 1)
        for row in (
            (
                rank,
                "all_reduce",
                12,
                "bfloat16",
                4096,
                at + (16 + rank) * 1000,
                at + (20 + rank) * 1000,
                at + (29 + rank) * 1000,
            ),
            (
                rank,
                "recv",
                UNMATCHED_SEQ + 3,
                "bfloat16",
                4096,
                at + 40_000,
                at + 40_000,
                at + 42_000,
            ),
        )
    ]
    assert sorted(run.rows("groups", "name", "ranks"))[0] == ("0x5", [])  # 9 ranks, 2 are here
    assert ("0xabcdef0123456789", [0, 1]) in run.rows("groups", "name", "ranks")


def test_ranks_names_in_a_second_file_and_names_missing(folder: Path, runs: Path) -> None:
    one = [kernel(MATMUL, 7, 10, 5)]
    path = folder / "00003-00008.timeline"
    path.write_bytes(timeline(3, one))
    run = Imported(path, into=runs)
    assert run.rows("spans", "rank", "name") == [(3, "kernel 7")]
    assert any("1 timelines have no .timeline.meta" in guess for guess in run.guesses)
    (folder / f"{path.name}.meta").write_text(META)
    assert Imported(path, into=runs / "again").rows("spans", "name") == [("Gemm,weird",)]
    (folder / "twice-00008.timeline").write_bytes(timeline(3, one))
    both = Imported(folder, into=runs)
    assert any("says it is rank 3, as" in problem for problem in both.problems)


def test_what_is_cut_keeps_what_was_before(folder: Path, runs: Path) -> None:
    data = timeline(5, [kernel(MATMUL, 7, i, 1) for i in range(100)])
    path = folder / "00005-00008.timeline"
    path.write_bytes(data[: len(data) // 2])
    run = Imported(path, into=runs)
    assert 45 < run.table("spans").num_rows < 55
    assert set(run.ranks) == {5}
    assert any("cut off or damaged at byte" in problem for problem in run.problems)
    assert any("rank 5 is taken from the name of the file" in guess for guess in run.guesses)


def test_a_number_that_no_rank_has_in_a_name_costs_no_other_file(folder: Path, runs: Path) -> None:
    (folder / "20261128-00008.timeline").write_bytes(timeline(0, [kernel(MATMUL, 7, 0, 1)]))
    (folder / "00001-00008.timeline").write_bytes(timeline(1, [kernel(MATMUL, 7, 0, 1)]))
    run = Imported(folder, into=runs)
    assert set(run.ranks) == {0, 1}
    assert run.problems == []


def test_damaged_kernels_cost_only_themselves(folder: Path, runs: Path) -> None:
    kernels = [
        kernel(MATMUL, 7, 0, 1),
        b"\xff" * 20,
        message((1, 1), (3, 2**64 - 1), (4, 5)),
        message((1, 1), (3, T0_US), (4, 2**63)),
        kernel(99, 2**32 - 1, 3, 1, (9, b"\xff\xff"), (10, b"\xff")),
        kernel(COLLECTIVE, 8, 4, 1, nccl(2**64 - 1, 2**64 - 1, ranks=2**40)),
    ]
    path = folder / "00000-00001.timeline"
    path.write_bytes(timeline(0, kernels, [b"\x07", host(b"\xff", 9, 1)]))
    run = Imported(path, into=runs)
    assert len(run.rows("spans", "name")) == 3
    assert "5 damaged kernels left out" in run.problems[0]
    assert run.rows("collectives", "seq") == []  # without its number it belongs to no instance


@pytest.mark.parametrize(
    "data",
    [
        message((1, message((3, 5)))),
        message((9, 1)),
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
)
def test_other_protobufs_are_not_taken(folder: Path, data: bytes) -> None:
    from ingest.readers import reader_of
    from ingest.readers.parsing import sources

    path = folder / "00000-00001.timeline"
    path.write_bytes(data)
    (source,) = sources.sources([path], lambda _: None)
    assert reader_of(source) is None
