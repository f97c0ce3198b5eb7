"""The watchdog: a rank that holds the GIL in C is noticed and its stacks are fetched."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.trace_hooks.processes import begin, rank_files, rows, run
from tests.trace_hooks.watchdog.on_host import ring_in, watchdogs_of
from tests.waiting import wait_until
from trace_hooks.job.process_info import start_ticks
from trace_hooks.recording.flight_ring import UNPLACED, Ring
from trace_hooks.watchdog import watchdog as module
from trace_hooks.watchdog.rank_status import MOST_BYTES
from trace_hooks.watchdog.watchdog import Watchdog, claimed, remove_leftovers

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
    wait_until(stacks.exists)
    assert process.poll() is None
    assert "stuck_in_c" in stacks.read_text()
    assert "Stack (most recent call first)" in stacks.read_text()
    silent = wait_until(lambda: watchdog_state(tmp_path).get("0000-00000"))
    assert (silent["rank"], silent["step"], silent["phase"]) == (0, 6, "step")
    assert (tmp_path / "runs" / "held" / silent["ring"]).exists()
    process.communicate(timeout=90)
    assert process.returncode == 0  # the signal did it no harm
    assert rank_files(tmp_path)[0]["end"]["status"] == "finished"
    marks = [row for row in rows(tmp_path, "marks") if row["kind"] == "silent"]
    assert [(row["rank"], row["step"]) for row in marks] == [(0, 6)]


def test_stacks_are_fetched_on_request(tmp_path: Path) -> None:
    code = "import time\nimport trace_hooks as th\nth.start(run='r')\ntime.sleep(60)\n"
    process = begin(tmp_path, code)
    (meeting,) = wait_until(lambda: list((tmp_path / "rings").glob("trace_hooks-*/*")))
    wait_until((tmp_path / "runs" / "r" / "ranks" / "0000-00000.json").exists)
    (meeting / "stacks.request").touch()
    stacks = tmp_path / "runs" / "r" / "stacks" / "0000-00000-0.txt"
    wait_until(stacks.exists)
    assert "script.py" in stacks.read_text()
    assert not rows(tmp_path, "marks")
    (written,) = meeting.glob("*.stacks")
    with written.open("ab") as file:  # as if they had been fetched many times
        file.write(b"-" * MOST_BYTES)
    (meeting / "stacks.request").touch()
    wait_until(stacks.with_name("0000-00000-1.txt").exists)
    assert "script.py" in stacks.with_name("0000-00000-1.txt").read_text()
    assert written.stat().st_size < MOST_BYTES
    process.terminate()
    process.communicate(timeout=90)


STALLS = """
import time
import trace_hooks as th
tracer = th.start(run="stalls")
for step in range(20):
    with tracer.step(step):
        time.sleep(0.25)
def waits_forever():
    time.sleep(6)
with tracer.step(20):
    waits_forever()
with tracer.step(21):
    time.sleep(2)
"""


@pytest.mark.long
def test_a_rank_that_lives_but_makes_no_step_is_stalled(tmp_path: Path) -> None:
    code, _, error = run(tmp_path, STALLS, TRACE_HOOKS_STALLED_S="2")
    assert code == 0, error
    marks = [row for row in rows(tmp_path, "marks") if row["kind"] == "stalled"]
    assert [(row["rank"], row["step"]) for row in marks] == [(0, 20)]
    stacks = json.loads(marks[0]["args"])["stacks"]
    assert "waits_forever" in (tmp_path / "runs" / "stalls" / stacks).read_text()
    state = watchdog_state(tmp_path)["0000-00000"]
    assert (state["state"], state["text"]) == ("running", "it makes progress again")


def test_it_ends_with_its_ranks_and_leaves_nothing(tmp_path: Path) -> None:
    code, _, _ = run(tmp_path, "import os\nimport trace_hooks as th\nth.start()\nos._exit(9)\n")
    assert code == 9
    wait_until(lambda: not list((tmp_path / "rings").glob("trace_hooks-*/*")))
    wait_until(lambda: not watchdogs_of(tmp_path))


def test_what_killed_jobs_left_on_node_local_memory_is_removed(tmp_path: Path) -> None:
    own_ticks = start_ticks(os.getpid()) or 0
    mine = tmp_path / "mine"
    mine.mkdir()
    ring_in(tmp_path / "dead", own_ticks - 1, hours_old=2)  # the pid is another process now
    ring_in(tmp_path / "lately", own_ticks - 1, hours_old=0.5)
    ring_in(tmp_path / "alive", own_ticks, hours_old=2)
    remove_leftovers(mine)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive", "lately", "mine"]


def test_a_rank_that_comes_while_it_leaves_is_watched(tmp_path: Path) -> None:
    folder = tmp_path / "launch"
    folder.mkdir()
    assert claimed(folder)
    watchdog = Watchdog(folder, 10, 60, 60)
    assert not watchdog.look()
    ring_in(folder, start_ticks(os.getpid()) or 0, hours_old=0)
    assert not claimed(folder)  # the rank relies on the watchdog there is
    assert watchdog._is_needed_after_all()
    assert not claimed(folder)


@pytest.mark.parametrize("empty_s", [3.0, 3.5, 4.0, 4.5])
def test_it_leaves_nothing_on_a_host_that_lets_it_run_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_s: float
) -> None:
    seconds = count()
    monkeypatch.setattr(module, "EMPTY_S", empty_s)
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(seconds)))
    folder = tmp_path / "launch"
    folder.mkdir()
    assert claimed(folder)
    Watchdog(folder, 10, 60, 60).run()
    assert not folder.exists()


def test_it_leaves_the_folder_to_later_ranks(tmp_path: Path) -> None:
    folder = tmp_path / "launch"
    folder.mkdir()
    watchdog = Watchdog(folder, 10, 60, 60)
    assert not watchdog._others_began()
    assert claimed(folder)  # by a rank that starts a watchdog of its own
    assert watchdog._others_began()


def test_a_rank_without_a_process_group_is_looked_at_in_the_run_of_another(tmp_path: Path) -> None:
    """Only rank 0 knows the attempt before the first group exists."""
    folder, ticks = tmp_path / "launch", start_ticks(os.getpid()) or 0
    folder.mkdir()
    for rank, attempt in ((0, 0), (1, UNPLACED)):
        Ring(folder / f"{rank}.ring", ticks, 0).place("r", attempt, rank, 2)
    note = {"run_folder": str(tmp_path / "r"), "log_files": [], "allow_content": False}
    (folder / "0.json").write_text(json.dumps(note))
    watchdog = Watchdog(folder, 10, 60, 60)
    watchdog.look()
    watchdog._write_looks(list(watchdog._members.values()), with_stacks=False)
    written = sorted(path.name[:16] for path in (tmp_path / "r" / "segments").glob("looks-*"))
    assert written == ["looks-0000-00000", "looks-0000-00001"]
