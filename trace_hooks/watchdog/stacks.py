"""Stacks as faulthandler writes them, in short: one line per frame.

    Thread 0x00007f.. [python] (most recent call first):
      File "/a/b.py", line 12 in forward
    Stack (most recent call first):
      ...

The last one is the main thread: faulthandler lists threads from the newest to the oldest.
"""

from __future__ import annotations

import re

_THREAD = re.compile(r"^(?:(?:Current thread|Thread) 0x[0-9a-f]+|Stack \(most recent)")
_FRAME = re.compile(r'^  File "([^"]{1,500})", line (\d{1,9}) in (.{1,200})$')

MOST_FRAMES = 40
MOST_THREADS = 32


def threads_of(text: str) -> tuple[list[str], list[str]]:
    """Frames of the main thread, innermost first, and the innermost frame of each other thread.

    A frame is 'function file:line', the file with at most its last four parts. Of several dumps
    in one text the last counts.
    """
    threads: list[list[str]] = []
    for line in text.splitlines():
        if _THREAD.match(line):
            threads.append([])
        elif threads and (frame := _FRAME.match(line)):
            threads[-1].append(f"{frame[3]} {_short(frame[1])}:{frame[2]}")
    if not threads:
        return [], []
    *others, main = threads
    return main[:MOST_FRAMES], [frames[0] for frames in others[-MOST_THREADS:] if frames]


_MOST_PARTS = 4


def _short(path: str) -> str:
    """Its end, by which people know it; a short path is left as it is."""
    parts = path.split("/")
    return path if len(parts) <= _MOST_PARTS + 1 else "/".join(parts[-_MOST_PARTS:])
