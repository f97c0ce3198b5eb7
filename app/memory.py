"""How the server takes memory, so that it does not grow for days. Elsewhere than on Linux with
glibc nothing of it is heard.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from contextlib import suppress

import pyarrow as pa

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Of mallopt(3), in malloc.h."""
_MAPPED_BYTES = 128 << 10
"""What is larger has pages of its own, which go when it is freed. Where this is not set it grows
with what is freed, up to 32 MiB: large and small then share pages, and one small thing keeps them.
"""
_JEMALLOC = "DUCKDB_JE_MALLOC_CONF"
_JEMALLOC_SAYS = "tcache:false,narenas:1,background_thread:true,dirty_decay_ms:100,muzzy_decay_ms:0"
"""Read by jemalloc, DuckDB's allocator, when DuckDB is loaded; its manual says what it may say.
Without a thread of its own it gives pages back only while it is asked for others.
"""
_WARM_S = 20.0
"""After so long a server that is asked has loaded what it needs."""


def settle() -> None:
    """Have memory go back to the system when it is freed; to be called before DuckDB is loaded.

    A server has dozens of threads, each with little to do at a time. Allocators made for speed keep
    what each of them freed, for it alone: here they share. Arrow's is not used for the same reason.
    """
    os.environ.setdefault(_JEMALLOC, _JEMALLOC_SAYS)
    with suppress(AttributeError, OSError):
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_M_ARENA_MAX, 1)
        allocator.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        pa.set_memory_pool(pa.system_memory_pool())


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
