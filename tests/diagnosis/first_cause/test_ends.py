"""What the ends of processes add: whose a line is that names no rank, and which are echoes."""

from __future__ import annotations

import pytest

from diagnosis.first_cause.decision import first_cause
from diagnosis.first_cause.lines import Line
from diagnosis.first_cause.placing import placed
from diagnosis.first_cause.weak_causes import weak_cause
from tests.diagnosis.first_cause.made_lines import KEY_ERROR, VALUE_ERROR, episode, line, world

ABORT = "terminate called after throwing an instance of 'c10::DistBackendError'"
NO_MEMORY = "terminate called after throwing an instance of 'std::bad_alloc'"
CRASH = "[n1:41 :0:90] Caught signal 11 (Segmentation fault: address not mapped)"
CANCELLED = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-05-02T08:00:01 ***"


def log(*texts: str) -> list[Line]:
    """Lines of all ranks in one file, without times."""
    made = [line(text, file="a.log", number=10 * at) for at, text in enumerate(texts, 1)]
    return placed(made, {})


def box(*ends: tuple[int, int]) -> str:
    """Torchrun's, of ranks and their exit codes."""
    failed = "".join(
        f"[{at}]:\n  host      : n1\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code} (pid: {900 + rank})\n"
        for at, (rank, code) in enumerate(ends)
    )
    return f"============\ntrain.py FAILED\nRoot Cause (first observed failure):\n{failed}"


def ranks(*texts: str) -> tuple[int, ...]:
    cause = first_cause(episode(*log(*texts)), world(8))
    assert cause is not None
    return cause.ranks


def test_the_only_exception_is_of_the_only_rank_that_failed():
    assert ranks(KEY_ERROR, box((4, 1))) == (4,)
    assert ranks(NO_MEMORY, box((4, -6))) == (4,)


@pytest.mark.parametrize(
    "texts",
    [
        (KEY_ERROR, box((4, 1), (5, 1))),
        (KEY_ERROR, KEY_ERROR, box((4, 1))),
        (KEY_ERROR, VALUE_ERROR, box((4, 1))),
        (KEY_ERROR, box((4, -9))),
        (box((4, 1)), KEY_ERROR),
        (KEY_ERROR, "srun: error: n1: task 0: Exited with exit code 1"),
    ],
    ids=["two failed", "twice", "two exceptions", "a signal", "it ended before", "a launcher"],
)
def test_else_no_rank_is_named(texts):
    assert ranks(*texts) == ()


def crash_after(text: str, distance: int, rank: int = -1) -> list[Line]:
    first = line(text, rank=rank, file="a.log", number=10)
    return [first, line(CRASH, rank=-1 if rank < 0 else 1, file="a.log", number=10 + distance)]


def test_a_crash_right_after_an_abort_is_its_echo():
    assert first_cause(episode(*crash_after(ABORT, 1)), world()) is None


@pytest.mark.parametrize(("distance", "rank"), [(200, -1), (1, 2)], ids=["far", "of another rank"])
def test_other_crashes_are_causes(distance, rank):
    cause = first_cause(episode(*crash_after(ABORT, distance, rank)), world())
    assert cause is not None
    assert cause.line.name == "segfault"


def test_what_an_abort_says_explains_the_signal_that_the_launcher_saw():
    cause = first_cause(episode(*log(NO_MEMORY, box((4, -11)))), world())
    assert cause is not None
    assert cause.line.name == "host_out_of_memory"


def test_a_job_that_is_cancelled_after_a_rank_ended_is_an_echo():
    ended = "srun: error: n1: task 1: Exited with exit code 1"
    assert weak_cause(episode(*log(ended, CANCELLED)), world()) is None
    cause = weak_cause(episode(*log(CANCELLED, ended)), world())
    assert cause is not None
    assert cause.line.name == "job_cancelled"


def test_a_kernel_writes_in_order():
    texts = "Out of memory: Killed process 41 (python)", "oom_reaper: reaped process 41 (python)"
    first, second = (
        line(text, stream="kernel", file="dmesg", number=number)
        for number, text in enumerate(texts)
    )
    assert first.is_before(second)
    assert not second.is_before(first)


def test_a_fault_of_a_gpu_names_the_rank_that_an_equal_line_names():
    """The program's traceback names none, its watchdog does."""
    error = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    plain = line(error, file="a.log", number=1)
    cause = first_cause(episode(plain, line(error, rank=5, file="a.log", number=9)), world())
    assert cause is not None
    assert cause.ranks == (5,)


def test_spawned_processes_of_one_host_are_ranks():
    error = line(KEY_ERROR, before="-- Process 3 terminated with the following error:")
    assert [placed([error], {}, num_hosts)[0].rank for num_hosts in (0, 1, 2)] == [3, 3, -1]
    assert placed([line(KEY_ERROR, before="-- Process 3 ended")], {})[0].rank == -1


TORN = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n^^^  File "a.py"'


def test_a_traceback_without_its_exception_is_no_cause_where_its_file_names_one():
    assert [each.text for each in episode(*log(TORN, KEY_ERROR)).anchors] == [KEY_ERROR]
    printed = episode(*log(TORN, "KeyError: 'labels'"))
    assert (printed.anchors, [each.text for each in printed.logged]) == ((), ["KeyError: 'labels'"])
    assert [each.text for each in episode(*log(TORN)).anchors] == [TORN]
