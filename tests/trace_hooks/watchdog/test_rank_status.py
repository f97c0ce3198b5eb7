"""One rank as the watchdog sees it: its progress and its heartbeats."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.trace_hooks.watchdog.on_host import ring_in
from trace_hooks.job.process_info import start_ticks
from trace_hooks.recording.clock import now
from trace_hooks.watchdog import rank_status
from trace_hooks.watchdog.rank_status import Member, Progress
from trace_hooks.watchdog.watchdog import Watchdog


def test_first_steps_and_pauses_made_before_are_no_stall() -> None:
    progress, now_s = Progress(), 0.0
    for step, took_s in enumerate([200.0, 1.0, 1.0]):
        progress.see(step, now_s)
        assert not progress.late_s(60, now_s + took_s - 0.1)
        now_s += took_s
    progress.see(3, now_s)
    assert not progress.late_s(60, now_s + 150)  # as long as the first step took
    assert progress.late_s(60, now_s + 201) == 201
    for step in range(4, 30):
        now_s += 1
        progress.see(step, now_s)
    assert not progress.late_s(60, now_s + 59)
    assert progress.late_s(60, now_s + 61) == 61


def test_a_rank_that_enters_collectives_is_not_silent_though_its_heart_has_stopped(
    tmp_path: Path,
) -> None:
    ring = ring_in(tmp_path, start_ticks(os.getpid()) or 0, hours_old=1)
    member = Member(ring.path)
    assert member.silent_s(enough_s=10) == pytest.approx(3600, abs=60)
    ring.write(7, 1, "all_reduce", "float32", 8, -1, -1, 3, now() - 2_000_000_000)
    assert member.silent_s(enough_s=10) == pytest.approx(2, abs=1.9)


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_rank_that_ends_in_order_while_it_is_looked_at_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    ticks = start_ticks(os.getpid()) or 0
    meeting, run_folder = tmp_path / "meeting", tmp_path / "run"
    ring = ring_in(meeting, ticks, hours_old=0)
    ring.place("run", 0, 0, 1)
    ring.path.with_suffix(".json").write_text(
        json.dumps({"run_folder": str(run_folder), "log_files": [], "allow_content": False})
    )
    (run_folder / "segments").mkdir(parents=True)
    now_ticks = [ticks]
    monkeypatch.setattr(rank_status, "start_ticks", lambda _pid: now_ticks[0])
    read = Member.read

    def read_while_it_ends(member: Member) -> bool:
        found = read(member)
        now_ticks.clear()
        now_ticks.append(0)
        return found

    monkeypatch.setattr(Member, "read", read_while_it_ends)
    watchdog = Watchdog(meeting, 10, 60, 60)
    watchdog.look()
    if not is_killed:
        ring.beat(now(), 3, "ended", "", ended=True)
    watchdog.look()
    assert bool(list(run_folder.glob("watchdog-*.json"))) == is_killed
