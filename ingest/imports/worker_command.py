"""How the processes that read files are started; loads no library."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext

from ingest.process_tuning import started_ahead

HERE_VARIABLE = "RANKSCOPE_READ_HERE"
"""Set to 1, files are read in this process: for debuggers, and where processes cannot be had."""


def reads_here() -> bool:
    """Whether files are read in this process."""
    return os.environ.get(HERE_VARIABLE) == "1"


def worker_command() -> list[str]:
    """What starts a process that reads files; -P: nothing is imported from the current folder."""
    return [sys.executable, "-P", "-m", "ingest.imports.worker"]


def first_started_ahead() -> AbstractContextManager[None]:
    """The first process of an import within this block starts now."""
    return nullcontext() if reads_here() else started_ahead(worker_command())
