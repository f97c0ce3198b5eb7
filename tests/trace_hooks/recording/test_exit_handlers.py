"""How a traced process ends, seen from outside: as without hooks, and with an end record."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.trace_hooks.processes import begin, rank_files, rows, run
from tests.waiting import wait_until

STEPS = """
import sys, time
import trace_hooks as th
tracer = th.start()
for _ in range(3):
    with tracer.step():
        pass
"""


def test_forgetting_to_stop_is_finished(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, STEPS)
    assert (code, err) == (0, "")
    assert rank_files(tmp_path)[0]["end"]["status"] == "finished"
    assert [row["step"] for row in rows(tmp_path, "steps")] == [0, 1, 2]


def test_an_exception_is_failed_with_its_text(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, STEPS + "raise KeyError('no such layer')\n")
    assert code == 1
    assert err.endswith("KeyError: 'no such layer'\n")
    end = rank_files(tmp_path)[0]["end"]
    assert end["status"] == "failed"
    assert "no such layer" in end["error"]


def test_the_users_excepthook_still_runs(tmp_path: Path) -> None:
    hook = "import sys\nsys.excepthook = lambda *a: print('mine')\n"
    code, out, _ = run(tmp_path, hook + STEPS + "raise KeyError('x')\n")
    assert (code, out) == (1, "mine\n")
    assert rank_files(tmp_path)[0]["end"]["status"] == "failed"


def test_sigterm_ends_the_process_by_that_signal(tmp_path: Path) -> None:
    process = begin(tmp_path, STEPS + "print('ready', flush=True)\ntime.sleep(60)\n")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    process.communicate(timeout=90)
    assert process.returncode == -signal.SIGTERM
    assert rank_files(tmp_path)[0]["end"]["status"] == "stopped"
    assert [row["step"] for row in rows(tmp_path, "steps")] == [0, 1, 2]


def test_sigterm_while_the_main_thread_is_stuck_in_c(tmp_path: Path) -> None:
    """A lock that is never released: no Python handler of the main thread can run."""
    stuck = "import ctypes\nprint('ready', flush=True)\n"
    stuck += "while True: ctypes.CDLL(None).pause()\n"  # releases the GIL, restarts by itself
    stuck = stuck.replace("while True: ctypes.CDLL(None).pause()", STUCK)
    process = begin(tmp_path, STEPS + stuck)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    process.communicate(timeout=90)
    assert process.returncode == -signal.SIGTERM
    end = rank_files(tmp_path)[0]["end"]
    assert (end["status"], end["error"]) == ("stopped", "SIGTERM")


STUCK = """
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
libc.pthread_mutex_lock(mutex)
"""


def test_the_users_sigterm_handler_decides(tmp_path: Path) -> None:
    handler = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *a: (print('saving', flush=True), sys.exit(7)))\n"
    )
    process = begin(tmp_path, handler + STEPS + "print('ready', flush=True)\ntime.sleep(60)\n")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    out, err = process.communicate(timeout=90)
    assert (process.returncode, out, err) == (7, "saving\n", "")
    assert rank_files(tmp_path)[0]["end"]["status"] == "stopped"


def test_a_forked_worker_that_is_terminated_does_not_end_its_parent(tmp_path: Path) -> None:
    fork = """
import os, signal
pid = os.fork()
if pid == 0:
    time.sleep(60)
time.sleep(0.2)
os.kill(pid, signal.SIGTERM)
assert os.waitpid(pid, 0)[1] == signal.SIGTERM
time.sleep(1)
print("alive")
"""
    code, out, err = run(tmp_path, STEPS + fork)
    assert (code, out, err) == (0, "alive\n", "")
    assert rank_files(tmp_path)[0]["end"]["status"] == "finished"


def test_nothing_is_left_on_node_local_memory(tmp_path: Path) -> None:
    run(tmp_path, STEPS)
    wait_until(lambda: not list((tmp_path / "rings").glob("trace_hooks-*/*")))


def test_a_sigterm_handler_installed_after_the_hooks_gets_its_time(tmp_path: Path) -> None:
    """A script run by `python -m trace_hooks` installs its handlers after the hooks' own."""
    saving = """
import signal
def save_and_leave(number, frame):
    time.sleep(1.5)
    print("saved", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, save_and_leave)
print("ready", flush=True)
time.sleep(60)
"""
    process = begin(tmp_path, STEPS + saving)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    out, err = process.communicate(timeout=90)
    assert (process.returncode, out, err) == (7, "saved\n", "")
    assert [row["step"] for row in rows(tmp_path, "steps")] == [0, 1, 2]


def test_an_exception_without_a_text_is_still_shown_and_failed(tmp_path: Path) -> None:
    hook = "import sys\nsys.excepthook = lambda *a: print('mine')\n"
    odd = "import traceback\ntraceback.format_exception = None\nraise KeyError\n"
    code, out, _ = run(tmp_path, hook + STEPS + odd)
    assert (code, out) == (1, "mine\n")
    assert rank_files(tmp_path)[0]["end"]["status"] == "failed"


def test_a_job_with_more_files_than_select_can_take(tmp_path: Path) -> None:
    many = """
import resource
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 2048), limit))
files = [open("/dev/null") for _ in range(1100)]
"""
    code, _, err = run(tmp_path, many + STEPS)
    assert (code, err) == (0, "")
    assert [row["step"] for row in rows(tmp_path, "steps")] == [0, 1, 2]


def test_a_program_that_closes_our_descriptors_is_still_recorded(tmp_path: Path) -> None:
    closing = "import os\nos.closerange(3, 64)\ntime.sleep(0.5)\n"
    code, _, err = run(tmp_path, STEPS + closing)
    assert (code, err) == (0, "")
    assert [row["step"] for row in rows(tmp_path, "steps")] == [0, 1, 2]
    wait_until(lambda: not list((tmp_path / "rings").glob("trace_hooks-*/*")))


CLOSES_ALL = """
import os, socket
time.sleep(1)
os.closerange(3, 64)
"""

OWN_FILES = """
files = [open(f"{number}.txt", "w+") for number in range(15)]
for file in files:
    print("the job's own", file=file, flush=True)
time.sleep(1)
tracer.stop()
for file in files:
    assert os.pread(file.fileno(), 100, 0) == b"the job's own\\n", file
"""

OWN_SOCKETS = """
pairs = [socket.socketpair() for _ in range(15)]
for ours, theirs in pairs:
    ours.send(b"from ours")
    theirs.send(b"from theirs")
time.sleep(1)
tracer.stop()
for ours, theirs in pairs:
    ours.settimeout(5)
    theirs.settimeout(5)
    assert (ours.recv(100), theirs.recv(100)) == (b"from theirs", b"from ours")
"""


@pytest.mark.parametrize("own", [OWN_FILES, OWN_SOCKETS], ids=["files", "sockets"])
def test_what_a_program_opens_under_our_descriptors_is_its_own(tmp_path: Path, own: str) -> None:
    code, _, err = run(tmp_path, STEPS + CLOSES_ALL + own, TRACE_HOOKS_SOURCES="gc,startup")
    assert (code, err) == (0, "")


def test_a_signal_while_a_lock_of_the_hooks_is_held_does_not_hang(tmp_path: Path) -> None:
    """The handler runs between two bytecodes of the main thread, wherever that is."""
    inside = (
        "import os, signal\nwith tracer.steps._lock:\n    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    code, _, _ = run(tmp_path, STEPS + inside)
    assert code == -signal.SIGTERM
    assert rank_files(tmp_path)[0]["end"]["status"] == "stopped"


END_ELSEWHERE = """
import threading
ending = threading.Thread(target=tracer.stop)
ending.start()
ending.join()
"""

END_BELOW_THE_USERS_HANDLER = """
import signal
ours = signal.getsignal(signal.SIGTERM)
signal.signal(signal.SIGTERM, lambda number, frame: ours(number, frame))
tracer.stop()
"""

END_INTERRUPTED = """
def interrupted(*_):
    raise KeyboardInterrupt
tracer._recording._drain.stop = interrupted
try:
    tracer.stop()
except KeyboardInterrupt:
    pass
"""


@pytest.mark.parametrize("end", [END_ELSEWHERE, END_BELOW_THE_USERS_HANDLER, END_INTERRUPTED])
def test_sigterm_after_the_hooks_have_ended_ends_the_process(tmp_path: Path, end: str) -> None:
    killed = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(1)\n"
    code, _, _ = run(tmp_path, STEPS + end + killed)
    assert code == -signal.SIGTERM


def test_sigterm_while_the_hooks_end_on_another_thread_comes_after_it(tmp_path: Path) -> None:
    end = """
import os, signal, threading
drain = tracer._recording._drain
stop = drain.stop
def stop_and_wait(seconds):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.5)
    return stop(seconds)
drain.stop = stop_and_wait
threading.Thread(target=tracer.stop).start()
time.sleep(20)
"""
    code, _, _ = run(tmp_path, STEPS + end)
    assert code == -signal.SIGTERM
    assert rank_files(tmp_path)[0]["end"]["status"] == "finished"
