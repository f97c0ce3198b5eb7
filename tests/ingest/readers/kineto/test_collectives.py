"""Collectives and messages of torch.profiler files: identity, numbers, groups."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.readers.kineto.profiler_files import collective, event, step, write
from tests.reader_results import Imported


def _two_ranks(tmp_path: Path, delay: float) -> list[Path]:
    paths = []
    for rank in (0, 1):
        late = rank * delay
        events = [
            event("record_param_comms", late - 5, 3, args=collective("allreduce")),
            event("record_param_comms", late + 45, 3, args=collective("_allgather_base")),
            event("record_param_comms", late + 60, 3, args=collective("wait")),
            event(
                "ncclDevKernel_AllReduce_Sum_bf16", late, 30, "kernel", args=collective("allreduce")
            ),
            event("a_name_of_its_own", 50 + late, 10, "kernel", args=collective("_allgather_base")),
        ]
        paths.append(write(tmp_path / f"x{rank}.json", events, rank))
    return paths


def test_collectives_have_one_identity_on_all_members(tmp_path: Path, runs: Path) -> None:
    run = Imported(*_two_ranks(tmp_path, 8.0), into=runs)
    rows = run.table("collectives").to_pylist()
    assert len({row["group_id"] for row in rows}) == 1
    assert [(r["rank"], r["seq"], r["op"], r["dtype"], r["num_bytes"]) for r in rows] == [
        (rank, seq, op, "bfloat16", 200)
        for rank in (0, 1)
        for seq, op in ((0, "all_reduce"), (1, "all_gather"))
    ]
    assert {row["start_ns"] - row["enqueue_ns"] for row in rows} == {5000}
    assert {row["state"] for row in rows} == {"completed"}
    starts = {(row["rank"], row["seq"]): row["start_ns"] for row in rows}
    assert starts[1, 0] - starts[0, 0] == 8000  # the late rank
    (group, other) = run.table("groups").to_pylist()
    assert (group["ranks"], group["name"], group["axis"]) == ([0, 1], "7", "world")
    assert group["group_id"] == other["group_id"] == rows[0]["group_id"]
    spans = [s for s in run.table("spans").to_pylist() if s["group_id"]]
    assert {(s["kind"], s["coll_seq"], s["num_bytes"]) for s in spans} == {
        ("other_comm", 0, 200),
        ("other_comm", 1, 200),
    }


def _of_two_cycles(folder: Path, **more: object) -> None:
    """Two files of two ranks each; of the first cycle rank 1 shows no step but the last."""
    for name, first_step, at in (("a", 5, 0.0), ("b", 10, 9e6)):
        for rank in (0, 1):
            begun = first_step + (rank == 1 and first_step == 5)
            events = [step(n, at + 100 * n, 100) for n in range(begun, first_step + 2)]
            for number in range(2):
                seq = {} if more else {"Seq": first_step * 100 + number}
                start = at + 100 * first_step + 120 + 20 * number + 3 * rank
                args = collective("allreduce", **more, **seq)
                events.append(event("ncclDevKernel_AllReduce", start, 9, "kernel", args=args))
                ends = [{"Dst Rank": 1}, {"Src Rank": 0}][rank]
                args = collective(["send", "recv"][rank], **ends)
                events.append(event("ncclDevKernel_SendRecv", start + 10, 5, "kernel", args=args))
            write(folder / f"{name}{rank}.json", events, rank)


def test_files_of_two_cycles_share_no_numbers(tmp_path: Path, runs: Path) -> None:
    """Else collectives of both would be one, in which ranks wait for the time between them."""
    _of_two_cycles(tmp_path / "in", **{"Seq": None})
    run = Imported(tmp_path / "in", into=runs)
    instances: dict[tuple[object, ...], list[int]] = {}
    for rank, op, group, seq, start_ns in run.rows(
        "collectives", "rank", "op", "group_id", "seq", "start_ns"
    ):
        key = ("message" if op in ("send", "recv") else op, group, seq)
        instances.setdefault(key, []).extend((rank, start_ns))
    assert sorted((what, seq) for what, _, seq in instances) == [
        (what, base + number)
        for what in ("all_reduce", "message")
        for base in (0, 10**9)
        for number in (0, 1)
    ]
    for first, first_ns, other, other_ns in instances.values():
        assert (first, other) == (0, 1)
        assert other_ns - first_ns == 3000
    spans = run.rows("spans", "rank", "group_id", "coll_seq", "ts_ns")
    assert spans == run.rows("collectives", "rank", "group_id", "seq", "start_ns")
    assert {
        rank: info["end"]["ts_ns"] - info["started_ns"] for rank, info in run.ranks.items()
    } == {
        0: 9_000_700_000,
        1: 9_000_600_000,
    }


def test_numbers_that_pytorch_wrote_stay_in_files_of_two_cycles(tmp_path: Path, runs: Path) -> None:
    _of_two_cycles(tmp_path / "in")
    run = Imported(tmp_path / "in", into=runs)
    rows = run.rows("collectives", "rank", "seq", "op")
    assert [(rank, seq) for rank, seq, op in rows if op == "all_reduce"] == [
        (rank, seq) for rank in (0, 1) for seq in (500, 501, 1000, 1001)
    ]
    assert {seq for _, seq, op in rows if op == "send"} == {0, 1, 10**9, 10**9 + 1}


def test_point_to_point_is_numbered_per_pair(tmp_path: Path, runs: Path) -> None:
    group = {"Process Group Name": "pp", "Process Group Ranks": "[0, 1]", "Seq": 77}
    for rank, op, end in ((0, "send", {"Dst Rank": 1}), (1, "recv", {"Src Rank": 0})):
        args = {**collective(op), **group, **end}
        events = [event("ncclDevKernel_SendRecv", ts, 5, "kernel", args=args) for ts in (0, 20)]
        write(tmp_path / "in" / f"rank{rank}.json", events, rank)
    run = Imported(tmp_path / "in", into=runs)
    assert run.rows("collectives", "rank", "op", "peer", "seq", "num_bytes") == [
        (0, "send", 1, 0, 200),
        (0, "send", 1, 1, 200),
        (1, "recv", 0, 0, 100),
        (1, "recv", 0, 1, 100),
    ]


def test_communication_without_a_group(tmp_path: Path, runs: Path) -> None:
    events = [
        event("nccl:all_to_all", 0, 1, "user_annotation"),
        event("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWork*)", 4, 10, "kernel"),
    ]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert run.rows("collectives", "op", "seq") == [("all_to_all", 0)]
    (enqueue_ns, start_ns) = run.rows("collectives", "enqueue_ns", "start_ns")[0]
    assert start_ns - enqueue_ns == 4000
    assert run.rows("groups", "ranks") == [([0, 1],)]
    assert any("it is shown as one group of 2 ranks" in guess for guess in run.info["guesses"])


def test_calls_without_kernels_are_enqueued_only(tmp_path: Path, runs: Path) -> None:
    calls = [event("nccl:all_reduce", 0, 1, "user_annotation")]
    blocking = [event("gloo:all_reduce", 0, 7, "user_annotation")]
    nccl = Imported(write(tmp_path / "a.json", calls), into=runs)
    assert nccl.rows("collectives", "state", "end_ns") == [("enqueued", -1)]
    gloo = Imported(write(tmp_path / "b.json", blocking), into=runs)
    ((state, start_ns, end_ns),) = gloo.rows("collectives", "state", "start_ns", "end_ns")
    assert (state, end_ns - start_ns) == ("completed", 7000)
    assert gloo.rows("spans", "kind") == [("other_comm",)]
