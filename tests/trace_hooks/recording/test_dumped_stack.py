"""Stacks of other threads, dumped and read."""

from __future__ import annotations

import threading
from pathlib import Path

from trace_hooks.recording.dumped_stack import Code, StackDump, stack_in

TEXT = """\
Thread 0x00007f01 (most recent call first):
  File "/a/worker.py", line 3 in wait
Current thread 0x00007f02 [drain] (most recent call first):
  File "/a/drain.py", line 7 in poll

Thread 0x00007f03 (most recent call first):
  File "/a/job with "quotes", line 1.py", line 12 in <listcomp>
  File "/a/job.py", line 40 in main
  ...
"""


def test_the_frames_of_the_wanted_thread_are_read_innermost_first() -> None:
    assert stack_in(TEXT, 0x7F03) == [
        Code('/a/job with "quotes", line 1.py', "<listcomp>", 12),
        Code("/a/job.py", "main", 40),
    ]
    assert stack_in(TEXT, 0x7F02) == [Code("/a/drain.py", "poll", 7)]
    assert stack_in(TEXT, 0x99) == []


def test_the_stack_of_a_thread_that_waits() -> None:
    def waits() -> None:
        inside.set()
        go_on.wait(20)

    inside, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=waits)
    thread.start()
    assert inside.wait(20)
    dump = StackDump()
    names = [code.function for code in dump.stack_of(thread.ident or 0)]
    again = [code.function for code in dump.stack_of(thread.ident or 0)]
    go_on.set()
    thread.join()
    dump.close()
    assert "waits" in names
    assert again == names


def test_no_descriptor_is_kept_that_may_become_one_of_the_jobs_own() -> None:
    before = num_files()
    dump = StackDump()
    assert dump.stack_of(threading.get_ident())
    assert num_files() == before


def test_a_closed_dump_has_no_stack_and_keeps_no_file() -> None:
    before = num_files()
    dump = StackDump()
    assert dump.stack_of(threading.get_ident())
    dump.close()
    dump.close()
    assert dump.stack_of(threading.get_ident()) == []
    assert num_files() == before


def num_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
