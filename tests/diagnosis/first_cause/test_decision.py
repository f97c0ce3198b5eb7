"""Which line is the first cause: order in time, classes, echoes, clocks."""

from __future__ import annotations

import pytest

from diagnosis.first_cause.cause import FirstCause, World
from diagnosis.first_cause.decision import first_cause
from diagnosis.first_cause.lines import Line
from tests.diagnosis.first_cause.made_lines import (
    KEY_ERROR,
    OOM,
    RESET,
    VALUE_ERROR,
    XID,
    episode,
    line,
    raised,
    timed_out,
    world,
)


def decided(*lines: Line, of: World | None = None) -> FirstCause:
    cause = first_cause(episode(*lines), of or world())
    assert cause is not None
    return cause


def nothing(*lines: Line) -> bool:
    return first_cause(episode(*lines), world()) is None


def test_the_earliest_line_is_the_cause():
    cause = decided(line(OOM, 0, 3), line(KEY_ERROR, 30, 9), line(RESET, 1, 5))
    assert (cause.line.name, cause.ranks, cause.rivals) == ("cuda_out_of_memory", (3,), ())
    assert cause.confidence == "high"


@pytest.mark.parametrize(
    ("earlier", "later", "wins"),
    [
        (line(KEY_ERROR, 0, 1), line(XID, 2, host="n1", stream="kernel"), "xid_79"),
        (line(OOM, 0, 1), line(KEY_ERROR, 2, 9), "exception"),
    ],
)
def test_where_times_overlap_the_class_decides(earlier, later, wins):
    """Two hosts whose clocks nobody compared: 2 s apart is no order."""
    assert decided(earlier, later).line.name == wins


def test_compared_clocks_give_the_order():
    lines = line(OOM, 0, 1, err_s=0.001), line(KEY_ERROR, 2, 9, err_s=0.001)
    assert decided(*lines).line.name == "cuda_out_of_memory"
    assert decided(*lines).ranks == (1,)


def test_one_host_has_one_clock():
    assert decided(line(OOM, 0, 1), line(KEY_ERROR, 2, 2)).ranks == (1,)


def test_a_time_taken_from_the_line_before_is_an_interval():
    """The traceback came at any time until the next line with a time."""
    vague = line(KEY_ERROR, 0, 1, lasts_s=900, err_s=0.001)
    other = line(VALUE_ERROR, 100, 9, err_s=0.001)
    cause = decided(vague, other)
    assert cause.ranks == ()
    assert cause.confidence == "low"
    assert {cause.line.rank, *(rival.rank for rival in cause.rivals)} == {1, 9}


def test_different_exceptions_that_cannot_be_ordered_name_nobody():
    cause = decided(line(KEY_ERROR, 0, 1), line(VALUE_ERROR, 2, 9))
    assert cause.ranks == () == cause.hosts
    assert (cause.confidence, len(cause.rivals)) == ("low", 1)


def test_the_rank_that_its_launcher_saw_end_first_is_preferred():
    end = "failed (exitcode: 1) local_rank: 1 (pid: 77) of binary: /usr/bin/python"
    box = "  host      : n1\n  rank      : 9 (local_rank: 1)\n  exitcode  : 1 (pid: 77)"
    lines = (
        line(KEY_ERROR, 0, 1),
        line(VALUE_ERROR, 2, 9),
        line(end, 3, 9, stream="launcher", file="torchrun.log"),
        line(f"Root Cause (first observed failure):\n[0]:\n{box}", 4, 9, stream="launcher"),
    )
    cause = decided(*lines)
    assert (cause.ranks, cause.confidence) == ((9,), "medium")


def test_echoes_never_anchor():
    assert nothing(
        line(RESET, 0, 3),
        line("RuntimeError: NCCL communicator was aborted on rank 1.", 1, 1),
        line("To avoid data inconsistency, we are taking the entire process down.", 2, 1),
        line("Sending process 41200 closing signal SIGTERM", 3, stream="launcher"),
        line("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", 4),
    )


def test_a_guess_never_anchors():
    assert nothing(line("the job failed; this might be caused by an out of memory error", 0, 3))
    assert nothing(line("For debugging consider passing CUDA_LAUNCH_BLOCKING=1", 0, 3))


def test_printed_order_misleads():
    """In a file that ranks share, the peer's line may stand before that of the culprit."""
    shared = {"file": "train.log"}
    cause = decided(
        line("n1:1:2 [0] NCCL WARN Connection closed by remote peer n1<5>", number=1, **shared),
        line("n1:3:4 [3] NCCL WARN Cuda failure 'out of memory'", number=3, **shared),
    )
    assert cause.line.name == "cuda_out_of_memory"


def test_all_ranks_with_one_exception_name_none():
    cause = decided(*(line(KEY_ERROR, rank * 0.05, rank) for rank in range(16)))
    assert (cause.of_all, cause.ranks, cause.hosts) == (True, (), ())


def test_two_ranks_that_fail_alike_are_the_whole_job():
    cause = decided(line(KEY_ERROR, 0, 0), line(KEY_ERROR, 0.1, 1), of=world(2, 2))
    assert (cause.of_all, cause.ranks) == (True, ())


def test_exceptions_that_differ_in_numbers_are_alike():
    texts = [raised(f"IndexError: {90 + rank} is beyond 'a/{rank}.bin'") for rank in (0, 1)]
    cause = decided(line(texts[0], 0, 0), line(texts[1], 0.1, 1), of=world(2, 2))
    assert cause.of_all


def test_all_ranks_of_a_host_name_the_host():
    cause = decided(*(line(KEY_ERROR, rank * 0.05, rank) for rank in range(8, 16)))
    assert (cause.ranks, cause.hosts) == ((), ("n1",))


def test_of_a_chain_the_first_exception_is_quoted():
    from diagnosis.first_cause.text import shown

    chain = (
        KEY_ERROR
        + "\n\nDuring handling of the above exception, another exception occurred:\n\n"
        + 'Traceback (most recent call last):\n  File "train.py", line 3, in main\n'
        + "RuntimeError: training step failed"
    )
    assert shown(decided(line(chain, 0, 3)).line) == "KeyError: 'labels'"


def test_a_timeout_is_no_anchor_and_its_cause_began_one_timeout_before():
    timeouts = [timed_out(rank, 600) for rank in range(15)]
    assert nothing(*timeouts)
    assert decided(line(KEY_ERROR, 2, 15), *timeouts).ranks == (15,)
    assert nothing(line(KEY_ERROR, -400, 15), *timeouts), "long before the wait began"
    assert nothing(line(KEY_ERROR, 630, 15), *timeouts), "after the others had given up"


def test_an_error_long_after_lost_connections_is_in_doubt():
    cause = decided(line(RESET, 0, 3, err_s=0.001), line(KEY_ERROR, 60, 3, err_s=0.001))
    assert cause.confidence == "low"


def test_the_kernel_explains_what_programs_of_its_host_report():
    cause = decided(
        line(XID, 0, host="n1", stream="kernel"),
        line("RuntimeError: CUDA error: unspecified launch failure", 0.5, 9),
        line(RESET, 1, 3),
    )
    assert (cause.line.name, cause.hosts, cause.ranks) == ("xid_79", ("n1",), (9,))


def test_a_kernel_whose_log_has_another_time_zone():
    """Its line stands at the failure if it is two hours off; the confidence in that is low."""
    kernel = {"host": "n1", "stream": "kernel"}
    lost = line(RESET, 0, 5)
    cause = decided(line(XID, 7_200 - 2, **kernel), lost)
    assert (cause.line.name, cause.hosts, cause.confidence) == ("xid_79", ("n1",), "low")
    assert nothing(line(XID, 7_200 - 400, **kernel), lost)
    assert decided(line(XID, 7_200, **kernel), line(KEY_ERROR, 0, 3), lost).ranks == (3,)


def test_what_comes_long_after_the_last_sign_of_a_failure_is_another_one():
    late = line(OOM, 3_600, 3)
    assert nothing(line(RESET, 0, 5), late)
    assert decided(line(RESET, 0, 5, lasts_s=7_200), late).ranks == (3,), "nobody knows when"
    assert decided(line(RESET), late).ranks == (3,)


def test_a_missing_optional_module_stands_before_the_real_error():
    missing = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n'
        "ModuleNotFoundError: No module named 'flash_attn'"
    )
    cause = decided(
        line(missing, 0, 3, number=2, before="could not import flash_attn, falling back to sdpa"),
        line(KEY_ERROR, 40, 3, number=9),
    )
    assert cause.line.text == KEY_ERROR


def test_no_times_at_all():
    cause = decided(line(KEY_ERROR, rank=3), line(RESET, rank=1))
    assert cause.ranks == (3,)
