"""The watchdog: a rank that holds the GIL in C is noticed and its stacks are fetched."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from processes import begin, rank_files, rows, run, wait_for

HOLD_GIL = """
import ctypes, sys, time
import trace_hooks as th
tracer = th.start(run="held")
with tracer.step(5):
    pass

def stuck_in_c():
    ctypes.PyDLL(None).usleep(int(4e6))  # PyDLL keeps the GIL: no Python thread can run

with tracer.step(6):
    time.sleep(0.5)
    stuck_in_c()
time.sleep(1.5)
"""


def watchdog_state(folder: Path) -> dict[str, Any]:
    found = list((folder / "runs").glob("*/watchdog-*.json"))
    return json.loads(found[0].read_text())["ranks"] if found else {}


def test_stacks_of_a_rank_that_holds_the_gil(tmp_path: Path) -> None:
    process = begin(tmp_path, HOLD_GIL, TRACE_HOOKS_SILENT_S="2")
    stacks = tmp_path / "runs" / "held" / "stacks" / "0000-00000-0.txt"
    wait_for(stacks.exists)
    assert process.poll() is None
    assert "stuck_in_c" in stacks.read_text()
    assert "Current thread" in stacks.read_text()
    silent = wait_for(lambda: watchdog_state(tmp_path).get("0000-00000"))
    assert (silent["rank"], silent["step"], silent["phase"]) == (0, 6, "step")
    assert (tmp_path / "runs" / "held" / silent["ring"]).exists()
    process.communicate(timeout=30)
    assert process.returncode == 0  # the signal did it no harm
    assert rank_files(tmp_path)[0]["end"]["status"] == "finished"
    marks = [row for row in rows(tmp_path, "marks") if row["kind"] == "silent"]
    assert [(row["rank"], row["step"]) for row in marks] == [(0, 6)]


def test_stacks_are_fetched_on_request(tmp_path: Path) -> None:
    code = "import time\nimport trace_hooks as th\nth.start(run='r')\ntime.sleep(60)\n"
    process = begin(tmp_path, code)
    (meeting,) = wait_for(lambda: list((tmp_path / "rings").glob("trace_hooks-*/*")))
    wait_for((tmp_path / "runs" / "r" / "ranks" / "0000-00000.json").exists)
    (meeting / "stacks.request").touch()
    stacks = tmp_path / "runs" / "r" / "stacks" / "0000-00000-0.txt"
    wait_for(stacks.exists)
    assert "script.py" in stacks.read_text()
    assert not rows(tmp_path, "marks")
    process.terminate()
    process.communicate(timeout=20)


def test_it_ends_with_its_ranks_and_leaves_nothing(tmp_path: Path) -> None:
    code, _, _ = run(tmp_path, "import os\nimport trace_hooks as th\nth.start()\nos._exit(9)\n")
    assert code == 9
    wait_for(lambda: not list((tmp_path / "rings").glob("trace_hooks-*/*")))
    wait_for(lambda: not _watchdogs_of(tmp_path))


def _watchdogs_of(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "trace_hooks.watchdog" in line and str(folder) in line and str(os.getpid()) not in line:
            found.append(line)
    return found
