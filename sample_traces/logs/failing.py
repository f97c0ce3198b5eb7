"""How a rank fails in the end: a traceback, and those who notice."""

from __future__ import annotations

import random
from collections.abc import Collection

from sample_traces.logs.echoes import crash
from sample_traces.logs.entries import Job

_FRAMES = (
    '  File "/opt/train/train.py", line 312, in <module>\n    main()',
    '  File "/opt/train/train.py", line 240, in train\n    loss = step(batch)',
    '  File "/opt/train/loop.py", line 77, in step\n    out = model(batch)',
)


def traceback(rng: random.Random, last: str) -> str:
    """A traceback of two or three frames that ends with an exception."""
    depth = rng.randrange(2, 4)
    return "\n".join(["Traceback (most recent call last):", *_FRAMES[-depth:], last])


def dies(job: Job, at_ns: int, rank: int, text: str, exit_code: int = 1) -> None:
    """A rank writes why it ends; the others and the launchers notice."""
    job.say(at_ns, rank, text, "none", level="ERROR")
    crash(job, at_ns, (rank,), exit_code)


def all_raise(job: Job, at_ns: int, ranks: Collection[int], last: str) -> None:
    """Ranks raise the same within a second."""
    for rank in ranks:
        text = traceback(job.rng, last)
        job.say(at_ns + job.rng.randrange(10**9), rank, text, level="ERROR")


def nccl_warns(job: Job, at_ns: int, rank: int, text: str) -> None:
    """A line of NCCL, which begins with its host, process and thread."""
    pid = job.pid(rank)
    who = f"{job.host_name(job.host_of(rank))}:{pid}:{pid + 900} [{rank % 8}]"
    job.say(at_ns, rank, f"{who} {text}", "nccl", level="WARN")
