"""What the server asks of the allocators is heard by the versions that are installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

ASKED = """
import ctypes, json
from app import memory
memory.settle()
import _duckdb
import pyarrow as pa

def told(name):
    value, size = ctypes.c_bool(), ctypes.c_size_t(1)
    jemalloc.duckdb_je_mallctl(name, ctypes.byref(value), ctypes.byref(size), None, 0)
    return value.value

jemalloc = ctypes.CDLL(_duckdb.__file__)
has_jemalloc = hasattr(jemalloc, "duckdb_je_mallctl")
tcache = told(b"opt.tcache") if has_jemalloc else None
print(json.dumps([has_jemalloc, tcache, pa.default_memory_pool().backend_name]))
memory.give_back()
"""


def test_threads_keep_nothing_for_themselves():
    command = [sys.executable, "-c", ASKED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    has_jemalloc, tcache, backend = json.loads(done.stdout)
    assert backend == "system"
    if not has_jemalloc:
        pytest.skip("this DuckDB has no jemalloc")
    assert tcache is False
