"""Processes of tests that use torch: forks of one process which has imported it.

Importing torch and what sample_traces.jobs needs of it costs 2.5 s of CPU time in every process
that does, most of a small job. Each worker of pytest has one such process, made when it is needed.
"""

from __future__ import annotations

import atexit
import faulthandler
import multiprocessing
import os
import runpy
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing import process
from pathlib import Path
from typing import NamedTuple

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.forks_preload"])
_ABORT_S = 20.0
"""What a process that hangs gets to write its stacks."""


class Fork(NamedTuple):
    """A script in a process of its own, and the files of what it prints."""

    process: multiprocessing.process.BaseProcess
    out: Path
    err: Path


class Ended(NamedTuple):
    """How a process has ended."""

    code: int | None
    out: str
    err: str


def fork(
    prints: Path, arguments: Sequence[str], environ: Mapping[str, str], cwd: Path | None = None
) -> Fork:
    """Run a script, or main() of a module after -m; it prints into `prints`.out and .err.

    It has `environ` and no other environment, and does not look like a worker of multiprocessing.
    """
    out, err = (prints.with_suffix(suffix) for suffix in (".out", ".err"))
    given = (list(arguments), dict(environ), str(cwd or Path.cwd()), str(out), str(err))
    started = _FORKS.Process(target=_run, args=given)
    started.start()
    return Fork(started, out, err)


def ended(forks: Sequence[Fork], seconds: float = 240.0) -> list[Ended]:
    """How all processes of one job end. Where one hangs, AssertionError with the stacks of each."""
    until_s = time.monotonic() + seconds
    for one in forks:
        one.process.join(max(0.0, until_s - time.monotonic()))
    hung = [one for one in forks if one.process.is_alive()]
    for pid in [pid for one in hung for pid in _family(one.process.pid or 0)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)  # faulthandler writes the stacks of all its threads
    for one in hung:
        one.process.join(_ABORT_S)
        one.process.kill()
        one.process.join()
    ends = [
        Ended(one.process.exitcode, one.out.read_text("utf-8"), one.err.read_text("utf-8"))
        for one in forks
    ]
    errors = "\n".join(f"process {n} ended with {e.code}:\n{e.err}" for n, e in enumerate(ends))
    assert not hung, f"{len(hung)} of {len(forks)} hung for {seconds} s\n{errors}"
    return ends


def succeeded(forks: Sequence[Fork], seconds: float = 240.0) -> list[Ended]:
    """As `ended`; AssertionError, too, where one fails."""
    ends = ended(forks, seconds)
    errors = "\n".join(f"process {n} ended with {e.code}:\n{e.err}" for n, e in enumerate(ends))
    assert all(one.code == 0 for one in ends), errors
    return ends


def _family(pid: int) -> list[int]:
    """A process after all that it has started."""
    children: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += map(int, path.read_text().split())
    return [*(each for child in children for each in _family(child)), pid]


def _run(arguments: list[str], environ: dict[str, str], cwd: str, out: str, err: str) -> None:
    for path, number in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    process._parent_process = None  # type: ignore[attr-defined]
    try:
        if arguments[0] == "-m":
            sys.exit(import_module(arguments[1]).main(arguments[2:]))
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # multiprocessing leaves them out
