"""The allocators that are installed follow what the server sets; imports load no pandas."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from app import cli

LOADED = """
import contextlib, ctypes, io, json, os, sys
from app import cli
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    cli.main([sys.argv[1], "--help"])  # loads all that the verb does before it runs

import _duckdb
import pyarrow as pa
import pyarrow.parquet as pq

def option(name, kind):
    value = kind()
    size = ctypes.c_size_t(ctypes.sizeof(value))
    jemalloc.duckdb_je_mallctl(name, ctypes.byref(value), ctypes.byref(size), None, 0)
    return value.value

jemalloc = ctypes.CDLL(_duckdb.__file__)
has_jemalloc = hasattr(jemalloc, "duckdb_je_mallctl")
options = [
    option(b"opt.tcache", ctypes.c_bool), option(b"opt.background_thread", ctypes.c_bool),
    option(b"opt.narenas", ctypes.c_uint), option(b"opt.dirty_decay_ms", ctypes.c_ssize_t),
] if has_jemalloc else None
pq.write_table(pa.table({"step": range(100_000)}), io.BytesIO())
left = [name for name in os.environ if "MALLOC" in name or "ARROW" in name]
print(json.dumps([options, pa.system_memory_pool().max_memory() > 0, left]))
"""

POOL = """
import json
from ingest import process_tuning
process_tuning.return_freed_memory()
import pyarrow as pa
print(json.dumps(pa.default_memory_pool().backend_name))
"""

GLIBC = """
import ctypes, json
from ingest import process_tuning

class MallocInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

glibc = ctypes.CDLL(None)
if hasattr(glibc, "mallinfo2"):
    process_tuning.return_freed_memory()
    glibc.mallinfo2.restype, glibc.malloc.restype = MallocInfo, ctypes.c_void_p
    glibc.free.argtypes = [ctypes.c_void_p]
    glibc.free(glibc.malloc(1 << 20))  # after this glibc by itself would map no 200 kB any more
    before = glibc.mallinfo2().hblks
    glibc.malloc(200 << 10)
    print(json.dumps(glibc.mallinfo2().hblks - before))
else:
    print("null")
"""


def output_of(script, *arguments):
    environ = {k: v for k, v in os.environ.items() if "MALLOC" not in k and "ARROW" not in k}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    return json.loads(done.stdout)


@pytest.mark.parametrize("verb", cli.SERVERS)
def test_threads_keep_nothing_for_themselves_and_what_is_free_goes_back(verb):
    options, is_arrow_settled, left = output_of(LOADED, verb)
    assert is_arrow_settled
    assert left == []
    if options is None:
        pytest.skip("this DuckDB has no jemalloc")
    assert options == [False, True, 1, 100]


def test_what_somebody_has_set_is_left_alone():
    environ = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}
    done = subprocess.run(
        [sys.executable, "-c", POOL], capture_output=True, text=True, check=True, env=environ
    )
    assert json.loads(done.stdout) == "mimalloc"


def test_what_is_large_has_pages_of_its_own():
    num_mapped = output_of(GLIBC)
    if num_mapped is None:
        pytest.skip("this is not glibc, or an older one")
    assert num_mapped == 1


WITHOUT_PANDAS = """
import json, sys
from ingest.process_tuning import without_pandas
if sys.argv[1] == "without":
    without_pandas()
import pyarrow as pa
pa.array(["a", None])
print(json.dumps("pandas" in sys.modules))
"""


def test_pyarrow_loads_no_pandas_where_it_shall_not():
    assert output_of(WITHOUT_PANDAS, "with") is True
    assert output_of(WITHOUT_PANDAS, "without") is False
