"""Errors after which the rank, or the whole job, went on."""

from __future__ import annotations

import math

from diagnosis.first_cause.decision import doubtful_cause, first_cause, logged_cause
from diagnosis.first_cause.handled import Survival
from tests.diagnosis.first_cause.made_lines import (
    KEY_ERROR,
    OOM,
    RESET,
    T0,
    XID,
    S,
    episode,
    line,
    timed_out,
    world,
)


def anchors(*lines, survival=None):
    return [each.rank for each in episode(*lines, survival=survival).anchors]


def test_a_rank_that_repeats_its_usual_lines_has_survived():
    assert anchors(line(OOM, 0, 3, went_on_s=4)) == [3]
    assert anchors(line(OOM, 0, 3, went_on_s=9)) == []
    assert anchors(line(OOM, rank=3, went_on_lines=3)) == []


def test_lines_of_another_file_are_later_only_if_the_time_is_known():
    """The traceback came at any time after the last line that has one."""
    vague = {"lasts_s": math.inf, "went_on_s": 22}
    assert anchors(line(OOM, 0, 3, **vague)) == [3]
    assert anchors(line(OOM, 0, 3, **vague, went_on_lines=4)) == []


def test_hardware_may_be_gone_while_lines_go_on():
    assert episode(line(XID, 0, host="n1", stream="kernel")).anchors != ()
    port = "n1:1:2 [3] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error"
    assert anchors(line(port, 0, 3, went_on_s=60)) == [3]


def test_a_warning_is_no_exception():
    text = "2026-01-01 00:00:00 - WARNING - ValueError: shard 7 has no rows"
    assert anchors(line(text, 0, 3)) == []
    built = "[WARNING] adam.so: cannot open shared object file: No such file, falling back to AdamW"
    assert anchors(line(built, 0, 3)) == []
    assert anchors(line(built.removeprefix("[WARNING] "), 0, 3)) == [3]


def test_steps_that_go_on_for_long_show_that_the_job_survived():
    until = Survival(steps_ns=T0 + 100 * S)
    assert anchors(line(KEY_ERROR, 0, 3), survival=until) == []
    assert anchors(line(KEY_ERROR, 90, 3), survival=until) == [3]
    assert anchors(line(KEY_ERROR, 0, 3, lasts_s=math.inf), survival=until) == [3]


def test_steps_further_down_in_the_same_file():
    survival = Survival(steps_lines={"train.log": 50})
    assert anchors(line(KEY_ERROR, rank=3, file="train.log", number=20), survival=survival) == []
    assert anchors(line(KEY_ERROR, rank=3, file="train.log", number=60), survival=survival) == [3]


def test_a_rank_that_waited_with_the_others_later_has_survived():
    waited = [timed_out(rank, 600, number=9, file=f"rank_{rank}.log") for rank in range(15)]
    assert anchors(line(KEY_ERROR, -5, 4, number=2, lasts_s=600), *waited) == []
    elsewhere = timed_out(15, 600, seq=6, number=9)
    assert anchors(line(KEY_ERROR, -5, 15, number=2), elsewhere, *waited) == [15]


def test_an_announced_error_is_a_last_resort():
    retried = line(KEY_ERROR, 0, 3, before="Retry 1/5 of shard 219 after an error:")
    assert anchors(retried) == []
    assert anchors(line(KEY_ERROR, 0, 3, before="step 219 | loss 2.1")) == [3]
    of_rank_3 = "srun: error: n0: task 3: Exited with exit code 1"
    ended = line(of_rank_3, 1, 3, file="slurm.out")
    held = episode(retried, ended, line(RESET, 1, 5))
    assert first_cause(held, world()) is None
    cause = doubtful_cause(held, world())
    assert cause is not None
    assert (cause.ranks, cause.confidence) == ((3,), "low")


def test_a_logged_exception_counts_where_nothing_else_does():
    logged = line(KEY_ERROR, 0, 3, before="2026-01-01 00:00:00 - ERROR - shard 219 has no label")
    alone = episode(logged, line(RESET, 1, 5))
    assert alone.anchors == ()
    cause = logged_cause(alone, world())
    assert cause is not None
    assert (cause.ranks, cause.confidence) == ((3,), "low")
    assert logged_cause(episode(logged), world()) is None, "nobody failed"
    assert anchors(logged, line(OOM, 9, 4)) == [4]
    assert anchors(line(OOM, 0, 3, before="[rank3] WARNING: slow")) == [3], "seldom caught"


def test_a_rank_that_wrote_of_the_failure_much_later_had_outlived_what_it_logged():
    logged = line(KEY_ERROR, 0, 3, number=2, before="ERROR - shard 219 has no label")
    echo = "RuntimeError: NCCL communicator was aborted on rank 3."
    soon, late = (line(echo, at_s, 3, number=9) for at_s in (2, 60))
    assert logged_cause(episode(logged, soon), world()).ranks == (3,)
    assert logged_cause(episode(logged, late), world()) is None


def test_a_line_that_only_looks_like_an_exception_counts_where_nothing_else_does():
    printed = line("TypeError: unsupported operand type(s) for +: 'int' and 'str'", 0, 3)
    assert anchors(printed, line(KEY_ERROR, 9, 4)) == [4]
    assert logged_cause(episode(printed, line(RESET, 1, 5)), world()).ranks == (3,)
    assert logged_cause(episode(printed), world()) is None


def test_a_logger_in_front_of_a_traceback():
    logged = line(f"08:00:01 ERROR [train.py:41] {KEY_ERROR}", 0, 3)
    assert anchors(logged) == []
    assert logged_cause(episode(logged, line(RESET, 1, 5)), world()).ranks == (3,)
    assert anchors(line(f"Retrying after: {KEY_ERROR}", 0, 3)) == []
    assert anchors(line(f"[worker] {KEY_ERROR}", 0, 3)) == [3]


def test_an_ignored_exception_ended_nothing():
    assert anchors(line(KEY_ERROR, 0, 3, before="Exception ignored in: <function A.__del__>")) == []
    assert anchors(line(KEY_ERROR, 0, 3, before="Exception in thread Thread-3 (send):")) == []


def test_lines_of_level_info_afterwards():
    from dataclasses import replace

    error = line(KEY_ERROR, 0, 3, file="rank_3.log")
    assert anchors(replace(error, usual_after=5)) == []
    assert anchors(replace(error, usual_after=4)) == [3]


def test_what_comes_after_somebody_ended_the_job_is_an_echo():
    ended = line("KeyboardInterrupt", 0, 0, err_s=0.001)
    assert anchors(ended, line(OOM, 1, 3, err_s=0.001)) == []
    assert anchors(ended, line(OOM, -1, 3, err_s=0.001)) == [3]


def test_what_follows_a_timeout_in_its_file_is_an_echo():
    shared = {"file": "train.log"}
    waited = [timed_out(rank, 600, number=10 + rank, **shared) for rank in range(16)]
    assert anchors(line(OOM, 600, number=40, **shared), *waited) == []
    assert anchors(line(OOM, 600, number=4, **shared), *waited) == [-1]


def test_words_of_another_matter_before_a_traceback():
    for before in ("apex is not installed; using torch.optim", "Found overflow. Skip step"):
        assert anchors(line(OOM, 0, 3, before=before)) == [3]
