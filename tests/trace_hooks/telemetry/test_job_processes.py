"""Whether a process is of the job, on a made /proc and on the real one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trace_hooks.telemetry import job_processes
from trace_hooks.telemetry.job_processes import (
    REMEMBER_S,
    JobProcesses,
    is_in_initial_namespace,
)

INITIAL = "pid:[4026531836]"


def made_proc(folder: Path, namespace: str, parents: dict[int, int]) -> Path:
    (folder / "self/ns").mkdir(parents=True)
    (folder / "self/ns/pid").symlink_to(namespace)
    for pid, parent in parents.items():
        (folder / str(pid)).mkdir()
        (folder / str(pid) / "stat").write_text(f"{pid} (a ) b) S {parent} 1 1 0\n")
    return folder


@pytest.fixture
def parents() -> dict[int, int]:
    return {1: 0, 70: 1, 504: 70, 600: 504, 601: 600, 508: 70}


def test_ranks_and_what_they_started_are_the_jobs(tmp_path: Path, parents: dict[int, int]) -> None:
    job = JobProcesses(made_proc(tmp_path, INITIAL, parents))
    job.add([504])
    assert [pid for pid in (504, 600, 601) if job.is_strangers(pid)] == []
    assert job.is_strangers(508)
    assert not job.is_strangers(70)  # its end would end the rank
    assert job.is_strangers(1)
    assert job.is_strangers(9_999)  # ended, and never a rank


def test_a_rank_that_has_ended_is_still_the_jobs(tmp_path: Path) -> None:
    job = JobProcesses(made_proc(tmp_path, INITIAL, {1: 0}))
    job.add([504])
    job.add([505])
    assert not job.is_strangers(504)


def test_what_a_rank_has_started_is_the_jobs_after_its_end(tmp_path: Path) -> None:
    proc = made_proc(tmp_path, INITIAL, {1: 0, 504: 1})
    (proc / "504/task/504").mkdir(parents=True)
    (proc / "504/task/504/children").write_text("611 612 ")
    job = JobProcesses(proc)
    job.add([504])
    assert job.is_strangers(611)
    job.look()
    assert not job.is_strangers(611)
    assert not job.is_strangers(612)


def test_a_number_that_another_process_has_by_now_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = made_proc(tmp_path, INITIAL, {1: 0, 504: 1})
    (proc / "504/task/504").mkdir(parents=True)
    children = proc / "504/task/504/children"
    now_s = 1000.0
    monkeypatch.setattr(job_processes.time, "monotonic", lambda: now_s)
    job = JobProcesses(proc)
    job.add([504])
    children.write_text("611 612 ")
    job.look()
    children.write_text("612 ")
    now_s += REMEMBER_S - 1
    job.look()
    assert not job.is_strangers(611)
    now_s += 2
    job.look()
    assert job.is_strangers(611)
    assert not job.is_strangers(612)


def test_in_a_container_and_before_the_first_rank_nobody_is_a_stranger(
    tmp_path: Path, parents: dict[int, int]
) -> None:
    inside = JobProcesses(made_proc(tmp_path / "a", "pid:[4026532281]", parents))
    inside.add([504])
    assert not inside.is_strangers(508)
    assert not JobProcesses(made_proc(tmp_path / "b", INITIAL, parents)).is_strangers(508)


@pytest.mark.skipif(not is_in_initial_namespace(), reason="runs in a container")
def test_a_real_child_is_the_jobs() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        job = JobProcesses()
        job.add([child.pid])
        assert not job.is_strangers(child.pid)
        assert job.is_strangers(1)
        child.communicate(b"\n")
