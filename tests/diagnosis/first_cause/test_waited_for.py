"""Where ranks only timed out: the rank that they waited for."""

from __future__ import annotations

from diagnosis.first_cause.cause import World
from diagnosis.first_cause.text import advice_of, text_of, title_of
from diagnosis.first_cause.waited_for import waited_for
from tests.diagnosis.first_cause.made_lines import episode, line, timed_out, world


def judged(*lines, of=None):
    return waited_for(episode(*lines), of or world())


def exception_of(rank, seq, entered, group="0(default_pg)"):
    text = (
        f"[PG ID 0 PG GUID {group} Rank {rank}] Exception (either an error or timeout) detected by "
        f"watchdog at work: {seq}, last enqueued NCCL work: {entered}, last completed NCCL work: 6."
    )
    return line(text, 600.1, rank)


def test_the_one_rank_that_did_not_time_out():
    cause = judged(*(timed_out(rank, 600) for rank in range(15)))
    assert (cause.ranks, cause.confidence, advice_of(cause)) == ((15,), "medium", "restart")
    assert title_of(cause) == "The others waited for rank 15"


def test_several_silent_ranks_may_have_been_ended_by_their_launcher():
    assert judged(*(timed_out(rank, 600) for rank in range(14))) is None


def test_all_ranks_in_one_collective_show_no_cause():
    assert judged(*(timed_out(rank, 600) for rank in range(16))) is None


def test_the_rank_that_entered_fewer_collectives():
    lines = [timed_out(rank, 600) for rank in range(16)]
    entered = [exception_of(rank, 7, 7 if rank != 5 else 6) for rank in range(16)]
    cause = judged(*lines, *entered)
    assert cause.ranks == (5,)
    assert "Fewer collectives" in text_of(cause)


def test_groups_count_for_themselves():
    """Ranks of another group have entered another number of collectives."""
    lines = [timed_out(rank, 600) for rank in range(16)]
    entered = [exception_of(rank, 7, 7, group="3" if rank < 12 else "4") for rank in range(12)]
    entered += [exception_of(rank, 7, 2, group="4") for rank in range(12, 16)]
    assert judged(*lines, *entered) is None


def test_a_rank_in_another_collective_than_the_others():
    cause = judged(*(timed_out(rank, 600, seq=7 if rank else 9) for rank in range(16)))
    assert (cause.ranks, cause.confidence) == ((0,), "low")


def test_rank_0_saves_alone():
    saving = line("Saving model checkpoint to /ckpt/step_9", 1, 0)
    cause = judged(saving, *(timed_out(rank, 600) for rank in range(1, 16)))
    assert (cause.ranks, cause.line, advice_of(cause)) == ((0,), saving, "fix_setting")
    assert "alone saved longer than the timeout of 600 s" in text_of(cause)


def test_what_a_rank_did_before_the_wait_began_does_not_count():
    saving = line("Saving model checkpoint to /ckpt/step_9", -60, 0)
    waiting = [timed_out(rank, 600) for rank in range(1, 14)]
    assert judged(saving, *waiting) is None


def test_a_progress_bar_without_a_rank_is_that_of_rank_0():
    bar = "Running tokenizer on dataset:   9%|9| 269000/2969526 [29:55<5:01:40, 149.19 examples/s]"
    shared = {"file": "train.log"}
    lines = [line(bar, number=1, **shared)]
    lines += [timed_out(rank, 600, number=1 + rank, **shared) for rank in (1, 2, 3)]
    cause = judged(*lines, of=World({1: None, 2: None, 3: None}))
    assert (cause.ranks, cause.confidence) == ((0,), "low")
    lines += [timed_out(0, 600, number=9, **shared)]
    assert judged(*lines, of=World(dict.fromkeys(range(4)))) is None


def test_the_rank_whose_id_was_not_there_is_named_only_with_what_it_did():
    text = (
        "RuntimeError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] "
        "via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout"
    )
    assert judged(line(text, 600, 3)) is None
    bar = line("Running tokenizer on dataset:  38%|3| 32068/85249 [32:13<53:59]", 590, 0)
    assert judged(bar, line(text, 600, 3)).ranks == (0,)
