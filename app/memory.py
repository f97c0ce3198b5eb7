"""How the server takes memory, so that it does not grow for days. Elsewhere than on Linux with
glibc nothing of it is heard.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

import pyarrow as pa

# of mallopt(3), in malloc.h
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

_ARENAS = 1
_OWN_PAGES_FROM = 64 << 10
"""Bytes: what is as large as this goes back to the system when it is freed. Left alone, glibc
begins with 128 KiB and raises it to the largest piece that was ever freed, up to 32 MB.
"""
_JEMALLOC = "DUCKDB_JE_MALLOC_CONF"
"""Read by jemalloc, DuckDB's allocator, when DuckDB is loaded; its manual says what it may say."""


def settle() -> None:
    """Have memory go back to the system when it is freed; to be called before DuckDB is loaded.

    A server has dozens of threads, each with little to do at a time. Allocators made for speed keep
    what each of them freed, for it alone: here all share. Arrow's is not used for the same reason.
    """
    os.environ.setdefault(_JEMALLOC, "tcache:false,dirty_decay_ms:0,muzzy_decay_ms:0")
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, _ARENAS)
        library.mallopt(_M_MMAP_THRESHOLD, _OWN_PAGES_FROM)
        pa.set_memory_pool(pa.system_memory_pool())


def give_back() -> None:
    """Return to the system what has been freed; takes some milliseconds."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
