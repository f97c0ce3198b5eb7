"""The real 8-rank job: everything it does is recorded, once, on all members, and adds up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ingest.run import Run, open_run
from sample_traces.jobs.schedules import num_stages, stage_indices

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def run(recorded_job: Any) -> Run:
    return open_run(recorded_job.folder)


@pytest.fixture(scope="module")
def collectives(run: Run) -> list[dict[str, Any]]:
    """Every row of collectives with the axis of its group, from step 1 on.

    In step 0 the stages also send each other their shapes.
    """
    return run.sql(
        "SELECT c.*, g.axis, g.ranks FROM collectives c JOIN group_members g USING (group_id)"
        " WHERE step >= 1 ORDER BY c.rank, c.start_ns"
    ).to_pylist()


def layers_of_stage(job: Any) -> int:
    return job.num_layers // num_stages("1f1b", job.pp)


def test_all_ranks_and_steps_are_there(run: Run, recorded_job: Any) -> None:
    steps = run.ask("steps").to_pylist()
    assert [step["step"] for step in steps] == list(range(recorded_job.num_steps))
    assert {step["num_finished"] for step in steps} == {8}
    assert str(run.layout()) == "pp 2 x dp 2 x tp 2"
    assert run.state == "finished"


def test_losses_are_those_the_job_printed(run: Run, recorded_job: Any) -> None:
    logged = run.ask("steps").to_pylist()
    assert [row["loss"] for row in logged] == [row["loss"] for row in recorded_job.losses]


def test_every_microbatch_runs_forward_and_backward_on_its_stage(
    run: Run, recorded_job: Any
) -> None:
    spans = run.sql(
        "SELECT rank, step, kind, chunk, microbatch FROM spans WHERE name IN ('F', 'B')"
    ).to_pylist()
    seen = Counter(tuple(row.values()) for row in spans)
    expected = {
        (rank, step, kind, stage, microbatch)
        for rank in range(8)
        for stage in stage_indices("1f1b", rank // 4, 2)
        for step in range(recorded_job.num_steps)
        for kind in ("forward", "backward")
        for microbatch in range(recorded_job.num_microbatches)
    }
    assert set(seen) == expected
    assert set(seen.values()) == {1}


def test_nothing_is_recorded_twice(collectives: list[dict[str, Any]]) -> None:
    keys = ("rank", "group_id", "seq", "op", "peer", "tag")
    point_to_point = Counter(tuple(row[key] for key in keys) for row in collectives)
    assert set(point_to_point.values()) == {1}
    whole = [row for row in collectives if row["op"] not in ("send", "recv")]
    assert set(Counter((r["rank"], r["group_id"], r["seq"]) for r in whole).values()) == {1}


def test_members_agree_on_every_instance(collectives: list[dict[str, Any]]) -> None:
    instances: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in collectives:
        if row["op"] not in ("send", "recv"):
            instances.setdefault((row["group_id"], row["seq"]), []).append(row)
    for members in instances.values():
        assert sorted(row["rank"] for row in members) == sorted(members[0]["ranks"])
        assert len({(row["op"], row["dtype"], row["num_bytes"]) for row in members}) == 1
        assert len({row["step"] for row in members}) == 1
        assert {row["state"] for row in members} == {"completed"}
        # all are there before any is through: the ranks share one host's clock
        assert max(row["start_ns"] for row in members) <= min(row["end_ns"] for row in members)


def test_every_send_has_its_receive(collectives: list[dict[str, Any]]) -> None:
    ends: dict[tuple[int, ...], Counter[str]] = {}
    for row in collectives:
        if row["op"] in ("send", "recv"):
            way = (row["rank"], row["peer"])
            src, dst = way if row["op"] == "send" else way[::-1]
            key = (row["group_id"], src, dst, row["tag"], row["seq"], row["step"], row["num_bytes"])
            ends.setdefault(key, Counter())[row["op"]] += 1
    assert ends
    assert all(both == {"send": 1, "recv": 1} for both in ends.values())


def test_counts_follow_the_schedule(collectives: list[dict[str, Any]], recorded_job: Any) -> None:
    """Per rank and step, with L layers a stage and M micro-batches.

    Tensor parallel: attention and MLP of each layer reduce once forward and once backward.
    Pipeline with two stages: an activation a micro-batch one way, its gradient the other.
    FSDP2 keeps parameters through the step: one gather and one scatter per layer and for the rest
    of the stage. The gradient norm is one all-reduce over all ranks.
    """
    layers, microbatches = layers_of_stage(recorded_job), recorded_job.num_microbatches
    counts = Counter((r["rank"], r["step"], r["axis"], r["op"]) for r in collectives)
    per_rank = {
        ("tp", "all_reduce"): layers * 2 * 2 * microbatches,
        ("pp", "send"): microbatches,
        ("pp", "recv"): microbatches,
        ("dp", "all_gather"): layers + 1,
        ("dp", "reduce_scatter"): layers + 1,
        ("world", "all_reduce"): 1,
    }
    assert counts == {
        (rank, step, *what): count
        for rank in range(8)
        for step in range(1, recorded_job.num_steps)
        for what, count in per_rank.items()
    }


def test_communication_spans_name_their_instance(run: Run) -> None:
    loose = run.sql(
        "SELECT s.rank, s.step, s.name FROM spans s LEFT JOIN collectives c"
        " ON (s.rank, s.group_id, s.coll_seq, s.name) = (c.rank, c.group_id, c.seq, c.op)"
        " WHERE s.kind LIKE '%_comm' AND c.rank IS NULL"
    )
    assert loose.num_rows == 0


def test_clock_error_is_stated(run: Run) -> None:
    clocks = run.ask("clock_error").to_pylist()
    assert [row["rank"] for row in clocks] == list(range(8))
    for row in clocks:
        assert row["method"] in ("same_host", "store_ping_pong")
        assert 0 <= row["err_us"] < 10_000


def test_coverage(run: Run) -> None:
    coverage = run.ask("coverage").to_pylist()
    assert len(coverage) == 8
    assert min(row["covered_ratio"] for row in coverage) >= 0.95


def test_hooks_had_no_errors_and_dropped_nothing(run: Run) -> None:
    for rank in run.ranks:
        assert rank["hooks"]["errors"] == {}
        assert rank["hooks"]["dropped"] == 0
        assert rank["end"] is not None
        assert rank["end"]["status"] == "finished"
