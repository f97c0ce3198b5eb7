"""What lines are known to mean: an example of each label, and lines that mean nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trace_hooks.log_text.label import Label
from trace_hooks.log_text.labels import LABELS, label_of, role_of
from trace_hooks.recording import account
from trace_hooks.recording.account import Account

HERE = Path(__file__).parent
EXAMPLES = [
    tuple(line.split(" | ", 1)) for line in (HERE / "labelled_lines.txt").read_text().splitlines()
]
HARMLESS = (HERE / "harmless_lines.txt").read_text().splitlines()
WITHOUT_LINE = {"communication_exception"}
"""Labels of tracebacks only."""


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_a_line_has_its_label(name, line):
    assert label_of(line) == name


def test_each_label_has_an_example():
    shown = {name for name, _ in EXAMPLES} | WITHOUT_LINE
    assert {name for name in LABELS if not name.startswith("xid_")} - shown == set()


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines_begin_nothing(line):
    assert role_of(label_of(line)) in ("", "context")


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_a_rank_in_front_changes_nothing(name, line):
    assert label_of(f"[rank3]: {line}") == name


def test_nccl_info_never_begins_a_failure():
    line = "n1:2:3 [0] NCCL {} Cuda failure 'out of memory'"
    assert label_of(line.format("WARN")) == "cuda_out_of_memory"
    assert label_of(line.format("INFO")) == ""


def test_a_fact_counts_and_the_guess_after_it_does_not():
    guess = " It is possible that dataloader's workers are out of shared memory."
    assert label_of(
        "RuntimeError: DataLoader worker (pid 2) is killed by signal: Killed." + guess
    ) == ("dataloader_killed")
    assert label_of(
        "watchdog got stuck for 480 seconds. This typically indicates a CUDA error: x"
    ) == ("heartbeat_timeout")


def traceback(
    *last: str, frame: str = '  File "train.py", line 9, in step\n    loss = nan_loss()'
) -> str:
    return "\n".join(["Traceback (most recent call last):", frame, *last])


def test_code_that_a_traceback_shows_means_nothing():
    assert label_of(traceback("ValueError: bad shape")) == "exception"
    frame = '  File "oom.py", line 1, in f\n    raise RuntimeError("CUDA out of memory")'
    assert label_of(traceback("KeyError: 'labels'", frame=frame)) == "exception"


def test_what_an_actor_raised_counts_not_what_its_caller_says():
    died = "ray.exceptions.ActorDiedError: The actor died "
    created = f"{died}because of an error raised in its creation task, ray::A.__init__() (pid=4)"
    assert label_of(traceback(created, "KeyError: 'labels'")) == "exception"
    assert label_of(traceback(created)) == "actor_died"
    assert label_of(traceback(f"{died}unexpectedly.", "The worker exits.")) == "actor_died"


def test_of_a_chain_the_first_known_exception_counts():
    chain = (
        traceback("OSError: [Errno 116] Stale file handle: '/mnt/a'")
        + "\n\nDuring handling of the above exception, another exception occurred:\n\n"
        + traceback("RuntimeError: training step failed")
    )
    assert label_of(chain) == "stale_file_handle"
    echo = (
        traceback("ConnectionResetError: [Errno 104] Connection reset by peer")
        + "\n\nThe above exception was the direct cause of the following exception:\n\n"
        + traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB")
    )
    assert label_of(echo) == "cuda_out_of_memory"


def test_an_exception_inside_a_collective_is_an_echo():
    frame = (
        '  File "/opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 1, '
        "in all_reduce\n    work.wait()"
    )
    for last in ("RuntimeError: something was lost", "RuntimeError: Connection closed by peer"):
        assert role_of(label_of(traceback(last, frame=frame))) == "cascade"
    assert label_of(traceback("RuntimeError: CUDA out of memory", frame=frame)) == (
        "cuda_out_of_memory"
    )


def test_labels_check_themselves():
    pattern = re.compile("x")
    with pytest.raises(ValueError, match="none of initiating"):
        Label("a", "first", "memory", "restart", "Why.", ("x",), pattern)
    with pytest.raises(ValueError, match="lower case"):
        Label("a", "initiating", "memory", "restart", "Why.", ("X",), pattern)
    assert LABELS["xid_79"].advice == "cordon_node"
    assert LABELS["xid_31"].advice == "fix_code"


def test_what_the_hooks_print_of_their_own_errors_begins_nothing():
    error = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.setattr(account.log, "warning", lambda text, *values: printed.append(text % values))
        Account().failed("functional.enter", error)
        Account().failed("tracer.log", error, switch_off=False)
    assert [label_of(line) for line in printed] == ["", ""]
    assert label_of(f"{printed[0]}\n{error}") == "cuda_out_of_memory"


def test_a_wrapper_of_the_hooks_around_a_collective_changes_no_label():
    frames = [
        '  File "/job/train.py", line 9, in <module>',
        '  File "/venv/torch/distributed/distributed_c10d.py", line 3137, in all_reduce',
    ]
    ours = '  File "/venv/trace_hooks/sources/communication/functional.py", line 112, in __call__'
    text = "Traceback (most recent call last):\n{}\nRuntimeError: went wrong"
    labels = [label_of(text.format("\n".join(lines))) for lines in (frames, [*frames, ours])]
    assert labels == ["communication_exception"] * 2
