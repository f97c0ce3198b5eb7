"""Starting a process that reads files, also ahead of its work.

Loading numpy and pyarrow takes such a process as long as reading several MB. A command that is
going to import files starts the first one before it loads its own libraries: both are ready at
once. So this module must load none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

HERE_VARIABLE = "RANKSCOPE_READ_HERE"
"""Set to 1, files are read in this process: for debuggers, and where processes cannot be had."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_IO_THREADS"), "1")
"""There is a process for every core; threads of libraries would only take address space."""


@dataclass(frozen=True)
class Started:
    """A process that has begun to load what it needs."""

    command: tuple[str, ...]
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    """what it writes to stderr"""

    def end(self) -> None:
        """End it at once, whatever it does."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                stream.close()


_ahead: list[Started] = []


def worker_command() -> list[str]:
    """What starts a process that reads files; -P: nothing is imported from the current folder."""
    return [sys.executable, "-P", "-m", "ingest.imports.worker"]


def start(command: Sequence[str]) -> Started:
    """A process of this command, perhaps one that was started ahead; raises OSError."""
    if _ahead and _ahead[-1].command == tuple(command):
        return _ahead.pop()
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed in Started.end
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        bufsize=0,
        env={**os.environ, **_ONE_THREAD},
        start_new_session=True,  # Ctrl-C is for whoever started the import
    )
    return Started(tuple(command), process, errors)


@contextmanager
def first_started_ahead() -> Iterator[None]:
    """The first process of an import within this block starts now; unused, it ends with it."""
    if os.environ.get(HERE_VARIABLE) != "1":
        with suppress(OSError):  # the import will try again, and say why it cannot
            _ahead.append(start(worker_command()))
    try:
        yield
    finally:
        while _ahead:
            _ahead.pop().end()
