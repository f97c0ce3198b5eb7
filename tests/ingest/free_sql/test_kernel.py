"""The kernel's rules for a process of SQL, each in a process of its own that keeps them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ingest.free_sql import kernel
from tests.ingest.free_sql.sql_processes import until_gone

landlock = pytest.mark.skipif(not kernel.landlock_version(), reason="no Landlock")


def printed(program: str, *arguments: object) -> Any:
    """What a process prints that runs this program, in JSON."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_layer_but_landlock_is_missing() -> None:
    assert kernel.missing_layers() == ([] if kernel.landlock_version() else ["Landlock"])


_READING = """
import json, os, sys
from pathlib import Path
from ingest.free_sql import kernel
folder, other = map(Path, sys.argv[1:])
opened = (other / "file").open("w")
kernel.only_read([folder])

def outcome(do):
    try:
        return do() and "done"
    except OSError as error:
        return type(error).__name__

print(json.dumps({
    "read": outcome((folder / "file").read_text),
    "list": outcome(lambda: list(folder.iterdir())),
    "random": outcome(lambda: os.open("/dev/urandom", os.O_RDONLY)),
    "write": outcome(lambda: (folder / "file").write_text("x")),
    "create": outcome(lambda: (folder / "new").write_text("x")),
    "read elsewhere": outcome((other / "file").read_text),
    "list elsewhere": outcome(lambda: list(other.iterdir())),
    "reopen": outcome(lambda: open(f"/proc/self/fd/{opened.fileno()}", "w")),
    "by a program": os.waitstatus_to_exitcode(os.system(f"cat {other}/file 2>/dev/null")) != 0,
}))
"""


@landlock
def test_files_below_the_folders_are_read_and_no_others(tmp_path: Path) -> None:
    folder, other = tmp_path / "run", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
        (each / "file").write_text("text")
    found = printed(_READING, folder, other)
    allowed = {"read", "list", "random"}
    assert {what for what, how in found.items() if how == "done"} == allowed
    assert {how for what, how in found.items() if what not in allowed} == {"PermissionError", True}


_MEMORY = """
import json, resource, sys
from pathlib import Path
from ingest.free_sql import kernel
addresses = kernel.Addresses()
taken = addresses.bytes_taken()
held = bytearray(256 << 20)
grown = addresses.bytes_taken() - taken
del held
kernel.limit_memory(taken, 64 << 20)
try:
    allocated = len(bytearray(1 << 30))
except MemoryError:
    allocated = 0
try:
    Path(sys.argv[1]).write_text("x")
    written = True
except OSError:
    written = False
kernel.limit_time(1.5)
first = resource.getrlimit(resource.RLIMIT_CPU)
kernel.limit_time(9.0)  # no limit is raised again
print(json.dumps([grown >> 20, len(bytearray(64 << 20)) >> 20, allocated, written, first,
                  resource.getrlimit(resource.RLIMIT_CPU)]))
"""


def test_memory_files_and_time_are_limited(tmp_path: Path) -> None:
    grown, small, large, written, *cpu = printed(_MEMORY, tmp_path / "file")
    assert 256 <= grown < 260
    assert (small, large, written) == (64, 0, False)
    assert cpu == [[2, 2], [2, 2]]


_PARENT = """
import json, os, time
from pathlib import Path
from ingest.free_sql import kernel
kernel.end_first()
read, write = os.pipe()
child = os.fork()
if not child:
    kernel.die_with_parent()
    os.write(write, b".")
    time.sleep(60)
    os._exit(0)
os.read(read, 1)
print(json.dumps([child, Path("/proc/self/oom_score_adj").read_text()]), flush=True)
os._exit(0)
"""


def test_a_process_ends_with_its_parent_and_first_where_memory_is_short(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+") as out:  # a pipe would stay open as long as the child lives
        subprocess.run([sys.executable, "-c", _PARENT], stdout=out, timeout=60, check=True)
        out.seek(0)
        child, score = json.load(out)
    until_gone([child])
    assert score == "1000\n"
