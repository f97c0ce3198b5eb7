"""faulthandler's text in short."""

from __future__ import annotations

import faulthandler
import tempfile
import threading

from trace_hooks.watchdog.stacks import threads_of


def written() -> str:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()


def test_the_main_thread_and_the_innermost_frame_of_others() -> None:
    stop = threading.Event()

    def waits_here() -> None:
        stop.wait()

    thread = threading.Thread(target=waits_here)
    thread.start()
    try:
        main, others = threads_of(written())
    finally:
        stop.set()
        thread.join()
    assert main[0].startswith("written ")
    assert main[1].startswith("test_the_main_thread_and_the_innermost_frame_of_others ")
    assert len(others) >= 1
    assert any(frame.startswith("wait ") for frame in others)


def test_what_is_no_stack_gives_none() -> None:
    assert threads_of("") == ([], [])
    assert threads_of('Segmentation fault\n  File "a", line 3 in f\n') == ([], [])


def test_a_short_path_is_left_as_it_is() -> None:
    frames = ['  File "/home/me/job/train.py", line 3 in f', '  File "/a/b/c/d/e.py", line 4 in g']
    main, _ = threads_of("\n".join(["Current thread 0x00007f (most recent call first):", *frames]))
    assert main == ["f /home/me/job/train.py:3", "g b/c/d/e.py:4"]
