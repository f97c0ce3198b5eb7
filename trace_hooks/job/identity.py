"""Which run and attempt a process belongs to, and which rank it is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trace_hooks.job.process_info import Place


@dataclass(frozen=True)
class Shared:
    """What rank 0 decides and shares with the others."""

    run: str
    attempt: int
    created_ns: int  # t0 of the run, Unix ns
    clock_domain: str  # of rank 0
    clock_offset_ns: int  # Unix - monotonic on rank 0
    clock_err_ns: int
    start: str = field(default="", repr=False)  # id of this start of the job
    secret: str = field(default="", repr=False)  # of the run; '' without a server


@dataclass(frozen=True)
class Identity:
    """The run, attempt and rank of one process."""

    shared: Shared
    place: Place
    folder: Path  # of the run
    guesses: tuple[str, ...] = ()
