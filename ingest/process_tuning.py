"""What was measured to make rankscope's own processes smaller or quicker, and nothing else.

| trick | what it gains | printed by |
|---|---|---|
| return_freed_memory | a server that follows a live run grows by 0.8 instead of 7.2 MB a minute and is 60 MB smaller | benchmarks/soak.py |
| trim_heap | the same, after a merge of files | benchmarks/soak.py |
| freeze_loaded | closed sockets are freed in seconds, not minutes | benchmarks/soak.py |
| without_pandas | 0.3 to 0.45 s of CPU time in every process that imports files | benchmarks/ingest_speed.py |
| tune_worker | a fifth of the time of reading Flight Recorder dumps | benchmarks/ingest_speed.py --dumps |
| started_ahead | 0.2 s (to load numpy and pyarrow) of every import | benchmarks/ingest_speed.py |
| prepare_meanwhile | 0.1 s (to load DuckDB) of an import of several ranks | benchmarks/ingest_speed.py |

Each can be left out without any other effect. This module loads no library: some of it has to
happen before DuckDB, Arrow or numpy are loaded.
"""  # noqa: E501

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import IO, Any

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Of mallopt(3), in malloc.h."""
_MAPPED_BYTES = 128 << 10
"""Larger blocks have pages of their own, which go when the block is freed. Where this is not set
glibc raises it with what is freed, up to 32 MiB: large and small blocks then share pages, and one
small block keeps them.
"""
ALLOCATOR_ENV = {
    "DUCKDB_JE_MALLOC_CONF": (
        "tcache:false,narenas:1,background_thread:true,dirty_decay_ms:100,muzzy_decay_ms:0"
    ),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Read when DuckDB and Arrow are loaded, never again. DuckDB's allocator is jemalloc (its manual
has the options): without a thread of its own it returns pages only while somebody allocates others.
Arrow's pool can be set later too, but what Parquet takes to write stays in its own then.
"""
_WARM_S = 20.0
"""After this long a server that gets requests has loaded what it needs."""
_OBJECTS_UNTIL_GC = 100_000
"""Python's 700 look through a dump again and again while it is built, and find no cycle."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_IO_THREADS"), "1")
"""There is a process for every core; threads of libraries would only take address space."""


def return_freed_memory() -> None:
    """Make the allocators return memory to the system when it is freed. Loads DuckDB and Arrow:
    nothing may have loaded them before. No effect outside Linux with glibc.

    A server has dozens of threads, each with little to do at a time. Allocators made for speed keep
    what each of them freed for that thread alone: here they share.
    """
    with suppress(AttributeError, OSError):
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_M_ARENA_MAX, 1)
        allocator.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    with _allocator_env():
        import_module("duckdb")
        import_module("pyarrow")


@contextmanager
def _allocator_env() -> Iterator[None]:
    """ALLOCATOR_ENV in the environment, except what the user has set there, and for this process
    alone: the ranks of a demo's job share their host with others, not their memory with threads.
    """
    new = [name for name in ALLOCATOR_ENV if name not in os.environ]
    os.environ.update({name: ALLOCATOR_ENV[name] for name in new})
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def trim_heap() -> None:
    """Return to the system what has been freed; takes some milliseconds."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def freeze_loaded() -> None:
    """Leave what is loaded, now and soon after the start, out of garbage collection.

    A full collection waits until a quarter of all objects is new. With half a million objects that
    stay anyway that took minutes, and what was in cycles was kept for as long: closed sockets and
    the tasks that had served them.
    """
    _freeze()
    timer = threading.Timer(_WARM_S, _freeze)
    timer.daemon = True
    timer.start()


def _freeze() -> None:
    gc.collect()
    gc.freeze()


class _WithoutPandas:
    """An import hook that comes first and finds no pandas."""

    def find_spec(self, fullname: str, *_: Any) -> None:
        """Raises ModuleNotFoundError for pandas, and leaves all others to Python."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is not used in this process", name=fullname)


def without_pandas() -> None:
    """Keep pyarrow from importing pandas, for the rest of this process.

    pyarrow imports it, where it is installed, at the first value it converts. Not for a server,
    which draws charts with pandas: pyarrow remembers that there is none.
    """
    sys.meta_path.insert(0, _WithoutPandas())


def tune_worker() -> None:
    """For a process that only reads files."""
    without_pandas()
    gc.freeze()
    gc.set_threshold(_OBJECTS_UNTIL_GC)


def prepare_meanwhile(module: str) -> None:
    """Load a module in a thread and call its `get_ready`, while this one reads files."""
    threading.Thread(target=lambda: import_module(module).get_ready()).start()


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
        start_new_session=True,  # Ctrl-C is for the command that imports
    )
    return Started(tuple(command), process, errors)


@contextmanager
def started_ahead(command: Sequence[str]) -> Iterator[None]:
    """The first `start` of the command within this block starts now; unused, it ends with it.

    Loading numpy and pyarrow takes a process as long as reading several MB. A command that is going
    to import files starts the first process before it loads its own libraries: both are ready at
    once.
    """
    with suppress(OSError):  # the import will try again, and report why it cannot
        _ahead.append(start(command))
    try:
        yield
    finally:
        while _ahead:
            _ahead.pop().end()
