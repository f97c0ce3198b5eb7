"""Who wrote a line, and how processes ended."""

from __future__ import annotations

import pytest

from diagnosis.first_cause.exits import Exit, exits_in
from diagnosis.first_cause.facts import quoted, rank_asked, user_frames
from diagnosis.first_cause.origins import Origin, origin_of, without_origin
from tests.diagnosis.first_cause.made_lines import KEY_ERROR
from trace_hooks.log_text.labels import LABELS, label_of


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("n-3.a:41:900 [2] transport/p2p.cc:1 NCCL WARN x", Origin(host="n-3.a", pid=41)),
        ("[n3:41 :0:900] Caught signal 7 (Bus error)", Origin(host="n3", pid=41)),
        ("(Actor(train-1) pid=41, ip=10.0.0.3) x", Origin(host="10.0.0.3", pid=41)),
        ("(TorchTrainer pid=41) x", Origin(pid=41)),
        ("2026-09-17 13:40:02 [rank2]: x", Origin(2, is_sure=True)),
        ("[1,23]<stdout>:x", Origin(23, is_sure=True)),
        ("[E ProcessGroupNCCL.cpp:475] [Rank 13] Watchdog caught x", Origin(13)),
        ("[PG ID 0 PG GUID 0(default_pg) Rank 5] x", Origin(5)),
        ("[PG ID 2 PG GUID 9 Rank 5] x", Origin()),
        ("AssertionError: Rank 11: found NaN. Device: 3, node: n7", Origin(11, "n7", None, True)),
        ("Rank 3, node n7, device 3: Unexpected result nan", Origin(3, "n7", None, True)),
        ("RuntimeError: [3] is setting up NCCL communicator", Origin(3, is_sure=True)),
        ("cannot rank 3 items", Origin()),
    ],
)  # fmt: skip
def test_origin(text, origin):
    assert origin_of(text) == origin


def test_a_line_is_shown_without_its_origin():
    assert without_origin("n1:41:900 [2] NCCL INFO Init COMPLETE") == "Init COMPLETE"
    assert without_origin("[rank3]: KeyError: 'a'") == "KeyError: 'a'"
    assert without_origin("[   41.300112] NVRM: Xid (PCI:0000:3b:00): 79") == (
        "NVRM: Xid (PCI:0000:3b:00): 79"
    )
    assert without_origin("(Actor pid=41, ip=10.0.0.3) KeyError: 'a'") == "KeyError: 'a'"


@pytest.mark.parametrize(
    ("text", "exits"),
    [
        ("failed (exitcode: -9) local_rank: 4 (pid: 899) of binary: p", [Exit(-1, "", 899, -9)]),
        (
            "[0]:\n  host      : n1\n  rank      : 9 (local_rank: 1)\n  exitcode  : 1 (pid: 77)\n"
            "[1]:\n  host      : n1\n  rank      : 8 (local_rank: 0)\n  exitcode  : -15 (pid: 76)",
            [Exit(9, "n1", 77, 1), Exit(8, "n1", 76, -15)],
        ),
        ("srun: error: n1: task 3: Exited with exit code 137", [Exit(3, "n1", None, -9)]),
        ("srun: error: n1: tasks 0,2-3: Killed", [Exit(r, "n1", None, -9) for r in (0, 2, 3)]),
        (
            "mpirun noticed that process rank 7 with PID 0 on node n4 exited on signal 6 (A).",
            [Exit(7, "n4", None, -6)],
        ),
        ("  Process name: [[11192,1],8]\n  Exit code:    3", [Exit(8, "", None, 3)]),
        ("Exception: process 1 terminated with signal SIGKILL", [Exit(1, "", None, -9)]),
        ("[rank: 1] Child process with PID 23026 terminated with code 1.", [Exit(1, "", 23026, 1)]),
        ("Rank 5 crashed with exit code -7.", [Exit(5, "", None, -7)]),
        ("Global rank 3 (PID 41) exited with code -11", [Exit(3, "", 41, -11)]),
        ("['python', '--local_rank=7'] exits with return code = -9", []),
    ],
)  # fmt: skip
def test_exits(text, exits):
    assert exits_in(text) == exits


def test_ended_by_the_launcher():
    assert [Exit(0, "", None, code).is_own for code in (1, -9, -11, -6, -15, 0)] == [
        True, True, True, True, False, False,
    ]  # fmt: skip


def test_the_line_of_a_box_that_says_it_is_quoted():
    box = (
        "============\ntrain.py FAILED\nRoot Cause (first observed failure):\n[0]:\n"
        "  host      : n1\n  exitcode  : -9 (pid: 77)\n"
        "  traceback : Signal 9 (SIGKILL) received by PID 77"
    )
    assert quoted(box, LABELS[label_of(box)]) == "exitcode  : -9 (pid: 77)"


def test_any_exception_of_a_traceback_is_quoted():
    for last in ("http.client.IncompleteRead: IncompleteRead(16 bytes read)", "queue.Empty"):
        text = f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n{last}'
        assert quoted(text, None) == last


def test_the_exception_of_a_loader_is_quoted_not_that_it_was_raised_again():
    outer = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
    again = "ValueError: Caught ValueError in DataLoader worker process 0."
    inner = 'Original Traceback (most recent call last):\n  File "b.py", line 2, in g\n'
    assert quoted(f"{outer}{again}\n{inner}ValueError: cannot decode", None) == (
        "ValueError: cannot decode"
    )
    assert quoted(f"{outer}{again}", None) == again


def test_frames_of_the_program_without_those_of_libraries():
    text = KEY_ERROR.replace(
        "\nKeyError", '\n  File "/lib/python3.11/json.py", line 2, in x\nKeyError'
    )
    assert user_frames(text) == ("train.py:9 in step",)


def test_the_rank_that_is_asked():
    assert rank_asked("retreiving ncclUniqueId from [0] via c10d key-value store") == 0
    assert rank_asked("nothing") == -1


def test_what_an_actor_raised_is_quoted():
    created = "ray.exceptions.ActorDiedError: an error raised in its creation task, ray::A()"
    text = f'Traceback (most recent call last):\n  File "a.py", line 1\n{created}\nKeyError: 7'
    assert quoted(text, None) == "KeyError: 7"


def test_of_a_torn_traceback_the_line_with_the_exception_is_quoted():
    torn = 'Traceback (most recent call last):\n  File "a.py", line 1\n^^^\n^KeyError :  7'
    assert quoted(torn, LABELS["exception"]) == "^KeyError :  7"
