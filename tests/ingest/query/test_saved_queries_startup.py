"""The questions about the start of a job and about its attempts: rows in, table out."""

from __future__ import annotations

import pytest

from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder
from tests.startup_runs import S, interrupted_run, phases, started_run, startup_rows


def asked(builder, name, **values):
    with open_run(builder.folder) as run:
        return run.ask(name, **values).to_pylist()


def test_the_start_of_a_rank_is_its_stretches_in_order(tmp_path):
    rows = asked(started_run(tmp_path / "run", {0: phases(), 1: phases("restore", 4)}), "startup")
    slow = [(row["phase"], row["begin_s"], row["seconds"]) for row in rows if row["rank"] == 1]
    assert slow[:2] == [("imports", 0.0, 2.0), ("hooks", 2.0, 0.5)]
    assert slow[4:] == [("restore", 3.5, 5.0), ("data", 8.5, 0.5)]


def test_pieces_of_a_stretch_are_one_and_overlap_counts_once(tmp_path):
    run = RunBuilder(tmp_path / "run", 1)
    for begin_s, seconds in ((0, 2), (2, 2), (3, 2), (7, 1)):
        run.add("startup", 0, -1, ts_ns=T0 + begin_s * S, dur_ns=seconds * S, cpu_ns=-1,
                phase="model", what="x", how="sampled")  # fmt: skip
    run.publish()
    rows = asked(run, "startup")
    assert [(row["begin_s"], row["seconds"]) for row in rows] == [(0.0, 5.0), (7.0, 1.0)]


def test_clocks_of_ranks_are_aligned(tmp_path):
    run = RunBuilder(tmp_path / "run", 2)
    for rank, offset_ns in ((0, 0), (1, 3 * S)):
        startup_rows(run, rank, [("model", 1.0, "x")])
        run.add("clocks", rank, -1, ts_ns=T0, offset_ns=offset_ns)
    run.publish()
    assert [row["begin_s"] for row in asked(run, "startup")] == [0.0, 3.0]
    assert [row["begin_s"] for row in asked(run, "first_steps")] == [0.0, 3.0]


def test_the_start_ends_with_the_first_step(tmp_path):
    run = started_run(tmp_path / "run", {0: phases(), 1: phases()}, first_s=2.0)
    run.add("checkpoints", 0, -1, ts_ns=T0 + 4 * S, dur_ns=S, action="read", name="torch.load",
            num_bytes=1 << 30, state="completed")  # fmt: skip
    run.publish()
    first, second = asked(run, "first_steps")
    assert (first["step_begin_s"], first["step_end_s"], first["usual_step_s"]) == (5.0, 7.0, 0.5)
    assert (first["read_s"], first["read_bytes"]) == (1.0, 1 << 30)
    assert (second["read_s"], second["read_bytes"]) == (0.0, None)
    assert (first["num_groups"], first["job_groups"]) == (1, 1)


def test_a_rank_that_has_not_trained_yet_was_seen_at_its_heartbeat(tmp_path):
    run = started_run(tmp_path / "run", {0: phases()}, num_steps=0)
    run.add("heartbeats", 0, -1, ts_ns=T0 + 9 * S)
    run.publish()
    (row,) = asked(run, "first_steps")
    assert (row["first_step"], row["step_end_s"], row["seen_s"]) == (None, None, 9.0)


def test_calls_are_summed_by_rank_and_the_slowest_is_named(tmp_path):
    run = RunBuilder(tmp_path / "run", 2)
    for rank, seconds in ((0, 1), (1, 4)):
        for num_bytes in (1_000_000, 3_000_000):
            run.add("checkpoints", rank, -1, ts_ns=T0, dur_ns=seconds * S, action="read",
                    name="torch.load", num_bytes=num_bytes, state="completed")  # fmt: skip
    run.publish()
    (row,) = asked(run, "checkpoint_calls")
    assert (row["longest_s"], row["slowest_rank"], row["median_s"]) == (8.0, 1, 5.0)
    assert (row["num_bytes"], row["mb_per_s"]) == (8_000_000, 0.5)


def test_the_rate_of_the_slowest_rank_is_not_that_of_another(tmp_path):
    run = RunBuilder(tmp_path / "run", 2)
    for rank, seconds, num_bytes in ((0, 1, 4_000_000), (1, 4, -1)):
        run.add("checkpoints", rank, -1, ts_ns=T0, dur_ns=seconds * S, action="save",
                name="torch.save", num_bytes=num_bytes, state="completed")  # fmt: skip
    run.publish()
    (row,) = asked(run, "checkpoint_calls")
    assert (row["slowest_rank"], row["num_bytes"], row["mb_per_s"]) == (1, None, None)


def test_a_save_between_two_steps_is_of_the_step_that_has_ended(tmp_path):
    run = RunBuilder(tmp_path / "run", 1)
    for step in (4, 5):
        run.step(0, step, 100 * step, 100 * step + 90)
    for step, begin_us in ((4, 491), (5, 592)):  # part of step 5's time, and after the last step
        run.span(0, step, "checkpoint", begin_us, begin_us + 5)
        run.add("checkpoints", 0, step, ts_ns=T0 + 1000 * begin_us, dur_ns=5000, action="save",
                name="torch.save", num_bytes=-1, state="completed")  # fmt: skip
    run.publish()
    first, last = asked(run, "checkpoint_steps")
    assert (first["step"], first["longer_step"], first["num_ranks"]) == (4, 5, 1)
    assert (last["step"], last["longer_step"], last["num_ranks"]) == (5, None, 1)
    assert [row["checkpoint_ms"] for row in (first, last)] == pytest.approx([0.005, 0.005])
    assert [row["step"] for row in asked(run, "checkpoint_calls")] == [4, 5]
    assert asked(run, "checkpoint_steps", step_min=5, step_max=5) == [first, last]


def test_parts_of_an_attempt_add_up_to_its_wall_time(tmp_path):
    for row in asked(interrupted_run(tmp_path / "run"), "goodput"):
        parts = (
            "start_up",
            "productive",
            "rewound",
            "checkpoint",
            "evaluation",
            "stalled",
            "restart",
        )
        assert sum(row[f"{part}_s"] for part in parts) == pytest.approx(row["wall_s"])


def test_the_time_after_the_last_step_is_a_stall_until_the_last_sign_of_life(tmp_path):
    first, second, third = asked(interrupted_run(tmp_path / "run"), "goodput")
    assert (first["stalled_s"], first["restart_s"]) == (3.0, 60 - 53)
    assert (second["stalled_s"], second["restart_s"]) == (3.0, 160 - 129)
    assert (third["stalled_s"], third["restart_s"]) == (3.0, 0.0)
    assert [row["num_failed"] for row in (first, second, third)] == [2, 0, 0]
    assert [row["num_finished"] for row in (first, second, third)] == [0, 0, 2]


def test_what_saves_cost_and_how_far_they_are_apart(tmp_path):
    first, second, _ = asked(interrupted_run(tmp_path / "run"), "goodput")
    assert (first["num_saves"], first["save_s"], first["interval_s"]) == (2, 0.5, 20.0)
    assert (first["checkpoint_s"], second["checkpoint_s"]) == (0.5, 1.0)  # step 9 was repeated


def test_an_attempt_that_never_trained_is_start_up(tmp_path):
    run = started_run(tmp_path / "run", {0: phases()})
    run.rank_files(1)
    startup_rows(run, 0, [("restore", 4.0, "x")], attempt=1)
    run.publish()
    second = asked(run, "goodput")[1]
    assert (second["start_up_s"], second["first_step"], second["productive_s"]) == (4.0, None, 0.0)


@pytest.mark.parametrize("evaluating", [(0, 1), (0,)], ids=["all ranks", "one rank"])
def test_evaluations_are_a_part_of_their_own(tmp_path, evaluating):
    """Steps of 1 s; 5 s of evaluation before the third one, 4 s after the last."""
    run = RunBuilder(tmp_path / "run", 2)
    run.rank_files(end={"status": "finished", "ended_ns": T0 + 13 * S})
    for rank in range(2):
        for step, (begin_s, end_s) in enumerate(((0, 1), (1, 2), (2, 8), (8, 9))):
            run.step(rank, step, begin_s * 1e6, end_s * 1e6)
        for step, begin_s, end_s in ((1, 2, 7), (3, 9, 13)):
            if rank in evaluating:
                run.span(rank, step, "evaluation", begin_s * 1e6, end_s * 1e6)
    run.publish()
    (row,) = asked(run, "goodput")
    assert (row["productive_s"], row["evaluation_s"], row["stalled_s"]) == (4.0, 9.0, 0.0)
    assert row["wall_s"] == 13.0
