"""Rows of spans and collectives follow the schedule."""

from pathlib import Path

from tests.sample_traces.generate.generated import NUM_MICROBATCHES, NUM_STEPS, made, rows


def test_counts_follow_the_schedule(healthy: Path) -> None:
    spans = rows(healthy, "spans")
    per_kind = {
        (row["kind"], row["name"]): row["rank_count"]
        for row in spans.group_by(["kind", "name"]).aggregate([("rank", "count")]).to_pylist()
    }
    each = 16 * NUM_STEPS
    passes = each * NUM_MICROBATCHES
    assert per_kind == {
        ("data_wait", "next batch"): each,
        ("dp_comm", "all_gather"): each,
        ("dp_comm", "reduce_scatter"): each,
        ("other_comm", "all_reduce"): each,
        ("optimizer", "optimizer"): each,
        ("forward", "forward"): passes,
        ("backward", "backward"): passes,
        ("tp_comm", "all_reduce"): 2 * passes,
        ("pp_comm", "recv"): passes,  # two stages: each receives one way and sends the other
        ("pp_comm", "send"): passes,
    }


def test_phases_add_up_to_the_step(tmp_path: Path, healthy: Path) -> None:
    phases = rows(made(tmp_path / "run", level="steps"), "spans")
    total = phases.group_by(["rank", "step"]).aggregate([("dur_ns", "sum")])
    total = total.sort_by([("rank", "ascending"), ("step", "ascending")])
    assert total["dur_ns_sum"].to_pylist() == rows(healthy, "steps")["dur_ns"].to_pylist()
