"""How the server takes memory, so that it does not grow for days. Elsewhere than on Linux with
glibc nothing of it is heard.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Of mallopt(3), in malloc.h."""
_MAPPED_BYTES = 128 << 10
"""What is larger has pages of its own, which go when it is freed. Where this is not set it grows
with what is freed, up to 32 MiB: large and small then share pages, and one small thing keeps them.
"""
_SAYS = {
    "DUCKDB_JE_MALLOC_CONF": (
        "tcache:false,narenas:1,background_thread:true,dirty_decay_ms:100,muzzy_decay_ms:0"
    ),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Read when DuckDB and Arrow are loaded, never again. DuckDB's allocator is jemalloc, whose manual
says what it may be told: without a thread of its own it gives pages back only while it is asked for
others. Arrow's pool can be set later too, but what Parquet takes to write stays in its own then.
"""
_WARM_S = 20.0
"""After so long a server that is asked has loaded what it needs."""


def settle() -> None:
    """Have memory go back to the system when it is freed. Loads DuckDB and Arrow: nothing may have
    loaded them before.

    A server has dozens of threads, each with little to do at a time. Allocators made for speed keep
    what each of them freed, for it alone: here they share.
    """
    with suppress(AttributeError, OSError):
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_M_ARENA_MAX, 1)
        allocator.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    with _said():
        import_module("duckdb")
        import_module("pyarrow")


@contextmanager
def _said() -> Iterator[None]:
    """_SAYS in the environment, but for what somebody has set there; not for processes started
    later: ranks of a demo's job share their host with others, not their memory with threads.
    """
    new = [name for name in _SAYS if name not in os.environ]
    os.environ.update({name: _SAYS[name] for name in new})
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def give_back() -> None:
    """Return to the system what has been freed; takes some milliseconds."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_what_is_loaded() -> None:
    """Leave what is loaded, now and soon after the start, out of garbage collection.

    A full collection waits for a quarter of all objects to be new. Of half a million that stay
    anyway that took minutes, and what was in cycles was kept for as long: closed sockets and the
    tasks that had served them.
    """
    _freeze()
    timer = threading.Timer(_WARM_S, _freeze)
    timer.daemon = True
    timer.start()


def _freeze() -> None:
    gc.collect()
    gc.freeze()
