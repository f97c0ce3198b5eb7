"""Logs of NCCL's Inspector, made here after the fields of its source: no real one can be had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ingest.readers.line_files import write_lines
from tests.reader_results import Imported

T0_US = 1752867229235059
WORLD, PAIR = "0xe62dedaa97644a", "0x7f8c496ae9f661"
Json = dict[str, Any]


def line(
    sn: int,
    rank: int,
    comm: str = WORLD,
    n_ranks: int = 4,
    at: int | None = 0,
    kernels: int = 2,
    **more: Any,
) -> Json:
    """A collective; with `at` its times in us after T0, as NCCL_INSPECTOR_DUMP_VERBOSE writes."""
    perf: Json = {
        "coll": "AllReduce",
        "coll_sn": sn,
        "coll_msg_size_bytes": 4096,
        "coll_exec_time_us": 40,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 1.5,
        "coll_busbw_gbs": 2.5,
        **more,
    }
    if at is not None:
        start = T0_US + at
        perf["event_trace_sn"] = {"coll_start_sn": 1}
        perf["event_trace_ts"] = {
            "coll_start_ts": start - 5,
            "coll_stop_ts": start - 1,
            "kernel_events": [
                {"channel_id": c, "kernel_start_ts": start + c, "kernel_stop_ts": start + 30 + c}
                for c in range(kernels)
            ],
        }
    return {
        "header": {"id": comm, "rank": rank, "n_ranks": n_ranks, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "git_rev": "",
            "hostname": "node1",
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": T0_US + 9000,
            "pid": 100 + rank,
        },
        "coll_perf": perf,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "in"


def test_communicators_of_a_job(folder: Path, runs: Path) -> None:
    for rank in range(4):
        pair = f"{PAIR}{rank // 2}"
        calls = [line(7, rank, at=100 + rank), line(9, rank, at=300)]
        calls.append(line(3, rank % 2, pair, 2, at=200, coll="ReduceScatter"))
        write_lines(folder, f"node1-pid{100 + rank}.log", *calls)
    run = Imported(folder, into=runs)
    assert run.info["source"] == "nccl_inspector"
    assert run.problems == []
    assert {rank: info["world_size"] for rank, info in run.ranks.items()} == dict.fromkeys(
        range(4), 4
    )
    assert run.ranks[2]["host"] == "node1"
    assert sorted(set(map(str, run.rows("groups", "name", "axis", "ranks")))) == [
        str((f"{PAIR}0", "unknown", [0, 1])),
        str((f"{PAIR}1", "unknown", [2, 3])),
        str((WORLD, "world", [0, 1, 2, 3])),
    ]
    at = T0_US * 1000
    columns = ("rank", "seq", "op", "num_bytes", "enqueue_ns", "start_ns", "end_ns", "state")
    assert run.rows("collectives", *columns)[3:6] == [
        (1, 7, "all_reduce", 4096, at + 96_000, at + 101_000, at + 132_000, "completed"),
        (1, 3, "reduce_scatter", 4096, at + 195_000, at + 200_000, at + 231_000, "completed"),
        (1, 9, "all_reduce", 4096, at + 295_000, at + 300_000, at + 331_000, "completed"),
    ]
    spans = run.rows("spans", "rank", "kind", "name", "coll_seq", "dur_ns", "group_id")
    groups = {group for *_, group in spans}
    assert spans[3][:5] == (1, "other_comm", "all_reduce", 7, 31_000)
    assert groups == {group for (group,) in run.rows("groups", "group_id")}
    assert any(
        "4 collectives between those in the logs were not recorded" in g for g in run.guesses
    )


def test_logs_without_event_traces(folder: Path, runs: Path) -> None:
    run = Imported(write_lines(folder, "a.log", line(1, 0, n_ranks=1, at=None)), into=runs)
    end_ns = (T0_US + 9000) * 1000
    assert run.rows("collectives", "start_ns", "end_ns") == [(end_ns - 40_000, end_ns)]
    assert any(
        "1 collectives say how long they took but not when" in guess for guess in run.guesses
    )


def test_missing_fields_cost_their_line(folder: Path, runs: Path) -> None:
    good, no_kernel = line(1, 2), line(2, 2, at=50, kernels=0)
    bad: list[object] = [
        "{",
        "[]",
        '{"header": 5, "coll_perf": {}}',
        {"header": {}, "proxy_perf": {}},
        {"header": {}, "p2p_perf": {}},
    ]
    bad += [line(-1, 2), line(10**30, 2), line(3, 4), line(4, 2, n_ranks=10**9), line(5, 2, coll=7)]
    huge = line(6, 2)
    huge["coll_perf"]["event_trace_ts"] = {"coll_start_ts": 2**60, "kernel_events": 5}
    nothing = line(7, 2, at=None)
    del nothing["metadata"]
    path = write_lines(folder, "a.log", good, *bad, huge, nothing, no_kernel)
    path.write_bytes(path.read_bytes() + b'{"header": {"id": "0x')
    run = Imported(path, into=runs)
    assert set(run.ranks) == {2}
    at = T0_US * 1000
    assert run.rows("collectives", "seq", "start_ns", "end_ns") == [
        (1, at, at + 31_000),
        (2, at + 45_000, at + 85_000),
        (6, at + 8_960_000, at + 9_000_000),
    ]
    problems = "\n".join(run.problems)
    assert "bad lines left out (line 2, 3, 6, ...)" in problems
    assert "1 lines left out because they are not collectives" in problems
    assert "1 lines left out because no line in front of them names" in problems
    assert run.rows("groups", "ranks") == [([],)]  # 1 of 4 ranks is here


def test_ranks_that_no_file_names(folder: Path, runs: Path) -> None:
    write_lines(folder, "a.log", line(1, 3))
    write_lines(folder, "b.log", line(1, 3))
    write_lines(folder, "c.log", line(1, 0, PAIR, 2))
    write_lines(folder, "d.log", line(1, 1), line(1, 2), line(5, 0, PAIR, 2))
    run = Imported(folder, into=runs)
    assert set(run.ranks) == {0, 1, 2, 3}
    problems = "\n".join(run.problems)
    assert "b.log: says it is rank 3, as" in problems
    assert "d.log: holds 2 ranks; 1 collectives of smaller communicators left out" in problems
    assert any("which gives the ranks: shown as rank 0" in guess for guess in run.guesses)


def message(sn: int, rank: int, peer: int, op: str = "Send", at: int = 0, **more: Any) -> Json:
    """A message, with times as NCCL_INSPECTOR_DUMP_VERBOSE writes them."""
    start = T0_US + at
    found = line(sn, rank, at=at)
    del found["coll_perf"]
    kernels = [{"channel_id": 0, "kernel_start_ts": start, "kernel_stop_ts": start + 20}]
    perf = {"p2p": op, "p2p_sn": sn, "p2p_peer": peer, "p2p_msg_size_bytes": 512}
    perf |= {"p2p_exec_time_us": 20, "event_trace_sn": {"p2p_start_sn": 1}}
    times = {"p2p_start_ts": start - 2, "p2p_stop_ts": start, "kernel_events": kernels}
    return found | {"p2p_perf": {**perf, "event_trace_ts": times, **more}}


def stats(rank: int, comm: str = WORLD, colls: int = 0, p2p: int = 0, lost: int = 0) -> Json:
    """The counters in front of a dump."""
    found = line(0, rank, comm)
    del found["coll_perf"]
    found["header"]["comm_name"] = "dp_group"
    counters = {"coll_records": colls, "p2p_records": p2p, "coll_dropped_total": lost}
    counters |= {"coll_dropped_since_last_dump": lost, "p2p_dropped_total": 0, "proxy_records": 0}
    return found | {"dump_stats": counters}


def test_messages_have_their_peer_among_the_jobs_ranks(folder: Path, runs: Path) -> None:
    write_lines(folder, "a.log", line(1, 0, n_ranks=2, at=10), message(4, 0, 1, at=50))
    other = message(6, 1, 0, "Recv", at=50)
    write_lines(folder, "b.log", line(1, 1, n_ranks=2, at=10), other)
    for name in ("a.log", "b.log"):
        path = folder / name
        path.write_text(path.read_text().replace('"n_ranks": 4', '"n_ranks": 2'))
    run = Imported(folder, into=runs)
    assert run.problems == []
    at, apart = T0_US * 1000 + 50_000, 1 << 40
    rows = run.rows("collectives", "rank", "op", "peer", "seq", "num_bytes", "start_ns", "state")
    assert [row for row in rows if row[1] != "all_reduce"] == [
        (0, "send", 1, apart + 8, 512, at, "completed"),
        (1, "recv", 0, apart + 13, 512, at, "completed"),
    ]
    assert ("send", -1, 20_000) in run.rows("spans", "name", "coll_seq", "dur_ns")


def test_numbers_of_different_operations_differ(folder: Path, runs: Path) -> None:
    """NCCL counts each operation of a communicator by itself."""
    calls = [
        line(n, 0, n_ranks=1, at=100 * n, coll=op)
        for n in (3, 4)
        for op in ("AllReduce", "AllGather")
    ]
    run = Imported(write_lines(folder, "a.log", *calls), into=runs)
    assert sorted(run.rows("collectives", "op", "seq")) == [
        ("all_gather", 6),
        ("all_gather", 8),
        ("all_reduce", 7),
        ("all_reduce", 9),
    ]


def test_from_version_4_3_on_only_the_counters_name_the_communicator(
    folder: Path, runs: Path
) -> None:
    bare = [{"coll_perf": line(n, 0, at=100 * n)["coll_perf"]} for n in range(4)]
    sent = {"p2p_perf": message(2, 0, 1, at=700)["p2p_perf"]}
    proxy = {"proxy_perf": {}}
    first, second = stats(3, colls=2, p2p=1), stats(1, PAIR, colls=1)
    first["dump_stats"]["proxy_records"] = 1
    lines = [bare[0], first, bare[1], proxy, bare[2], sent, bare[3], second, bare[3]]
    run = Imported(write_lines(folder, "a.log", *lines), into=runs)
    assert set(run.ranks) == {3}
    assert run.rows("collectives", "op", "seq") == [
        ("all_reduce", 1),
        ("all_reduce", 2),
        ("all_reduce", 3),
        ("send", (1 << 40) + 4),
    ]
    assert {name for (name,) in run.rows("groups", "name")} == {"dp_group"}
    assert run.ranks[3]["host"] == "node1"
    problems = "\n".join(run.problems)
    assert "2 lines left out because no line in front of them names" in problems


def test_records_that_were_lost_are_a_problem(folder: Path, runs: Path) -> None:
    lines = [stats(0, lost=10), line(1, 0), stats(0, lost=25), line(9, 0, at=90)]
    run = Imported(write_lines(folder, "a.log", *lines), into=runs)
    assert (
        "a.log: 25 collectives and messages were lost before they could be written"
        in (run.problems[0])
    )
