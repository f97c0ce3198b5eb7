"""Stacks of threads other than the main one: read under the GIL, and only without progress."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.trace_hooks.processes import begin
from tests.waiting import wait_until
from trace_hooks.recording.flight_ring import read_header
from trace_hooks.watchdog import other_threads
from trace_hooks.watchdog.other_threads import (
    OtherThreads,
    fresh_text,
    text_of_threads,
    without_main,
)
from trace_hooks.watchdog.rank_status import Member
from trace_hooks.watchdog.stacks import threads_of

BUSY = """
import os
import threading
import trace_hooks as th
tracer = th.start(run="busy")
def deep(n):
    return 0 if n == 0 else deep(n - 1) + len([n] * 5)
def work():
    while True:
        deep(200)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
while not os.path.exists("stop"):
    deep(300)
tracer.stop()
"""
"""os.path.exists takes any error for no: see rank_side.py on errno."""
CALLED_FROM_C = """
import os
import threading
import trace_hooks as th
tracer = th.start(run="busy")
threading.Thread(target=threading.Event().wait, daemon=True).start()
def busy():
    while not os.path.exists("stop"):
        [tuple(n for n in range(3)) for _ in range(100_000)]
print("ready", flush=True)
busy()
tracer.stop()
"""
LOOKS = 300
MAIN = 'Stack (most recent call first):\n  File "/a.py", line 3 in f\n'


def test_a_busy_rank_with_threads_lives_through_hundreds_of_looks(tmp_path: Path) -> None:
    """A dump of all its threads by faulthandler ended such a process within about ten."""
    process = begin(tmp_path, BUSY)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    (ring,) = (tmp_path / "rings").glob("*/*/*.ring")
    header = read_header(ring.read_bytes()[:4096])
    for _ in range(LOOKS):
        os.kill(header.pid, header.signal)
        time.sleep(0.003)
    assert process.poll() is None
    stacks = ring.with_suffix(".stacks").read_text()
    assert stacks.count("Stack (most recent call first)") > LOOKS / 10  # signals may join
    assert "in deep" in stacks
    (tmp_path / "stop").touch()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_main_thread_that_runs_gets_no_signal_and_its_stack_is_known(tmp_path: Path) -> None:
    """A signal while C code calls Python ended one such process in 2,000 signals."""
    process = begin(tmp_path, CALLED_FROM_C)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (ring,) = (tmp_path / "rings").glob("*/*/*.ring")
        wait_until(ring.with_suffix(".threads").exists)
        text = wait_until(lambda: stacks_of(ring))
        main, others = threads_of(text)
        assert main[-1].startswith("<module> ")
        assert any(frame.startswith("busy ") for frame in main)
        assert any(frame.startswith("wait ") for frame in others)
        assert ring.with_suffix(".stacks").read_bytes() == b""
    finally:
        (tmp_path / "stop").touch()
        process.communicate(timeout=60)
    assert process.returncode == 0


def stacks_of(ring: Path) -> str:
    member = Member(ring)
    return member.fetch_stacks()


DUMP = """\
Thread 0x00007f0000000003 (most recent call first):
  File "/t.py", line 9 in wait
  File "/t.py", line 5 in run

Current thread 0x00007f0000000002 (most recent call first):
  File "/hooks.py", line 1 in look

Thread 0x00007f0000000001 (most recent call first):
  File "/a.py", line 3 in f
  File "/a.py", line 7 in <module>
"""


def test_the_threads_of_a_dump_and_where_they_are() -> None:
    names = {0x7F0000000003: "loader\n7"}
    text = text_of_threads(DUMP, 0x7F0000000001, names)
    assert "[loader 7] (most recent call first):" in text
    assert threads_of(text) == (["f /a.py:3", "<module> /a.py:7"], ["wait /t.py:9"])
    assert threads_of(without_main(text) + MAIN) == (["f /a.py:3"], ["wait /t.py:9"])
    assert threads_of(text_of_threads(DUMP, 1, names))[0] == []
    assert without_main(text_of_threads("", 1, {})) == ""


def test_it_is_written_without_progress_and_gone_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(other_threads.time, "monotonic", lambda: now_s[0])
    path = tmp_path / "1.threads"
    others = OtherThreads(path)
    for second, progress, is_there in ((0, 7, False), (1, 7, False), (2, 7, True), (3, 8, False)):
        now_s[0] = float(second)
        others.see(progress, "step")
        assert path.exists() == is_there, second


def test_what_is_old_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "1.threads"
    assert fresh_text(path) == ""
    path.write_text("x")
    assert fresh_text(path) == "x"
    os.utime(path, (time.time() - 60, time.time() - 60))
    assert fresh_text(path) == ""
