"""How the server takes memory, so that it does not grow for days. Elsewhere than on Linux with
glibc nothing of it is heard.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

import pyarrow as pa

_M_ARENA_MAX = -8
"""Of mallopt(3), in malloc.h."""
_ARENAS = 2
_JEMALLOC = "DUCKDB_JE_MALLOC_CONF"
"""Read by jemalloc, DuckDB's allocator, when DuckDB is loaded; its manual says what it may say.
Giving pages back at once (dirty_decay_ms:0) as well costs much of the server's CPU time.
"""


def settle() -> None:
    """Have memory go back to the system when it is freed; to be called before DuckDB is loaded.

    A server has dozens of threads, each with little to do at a time. Allocators made for speed keep
    what each of them freed, for it alone: here they share. Arrow's is not used for the same reason.
    """
    os.environ.setdefault(_JEMALLOC, "tcache:false")
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
        pa.set_memory_pool(pa.system_memory_pool())


def give_back() -> None:
    """Return to the system what has been freed; takes some milliseconds."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
