"""How the server takes memory, so that it does not grow for days. Elsewhere than on glibc nothing
is done.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

import pyarrow as pa

_M_ARENA_MAX = -8
"""Of mallopt(3), in malloc.h."""
_ARENAS = 2


def share_arenas() -> None:
    """Have all threads share two arenas: with one for each, what many threads free stays with the
    process. Arrow's own allocator keeps a heap for each thread in the same way: it is not used.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
        pa.set_memory_pool(pa.system_memory_pool())


def give_back() -> None:
    """Return to the system what has been freed; takes some milliseconds."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
