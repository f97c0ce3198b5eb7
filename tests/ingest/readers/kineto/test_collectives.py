"""Collectives and messages of torch.profiler files: identity, numbers, groups."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.readers.kineto.profiler_files import collective, event, write
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
