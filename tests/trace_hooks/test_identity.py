"""Run, attempt and rank: alone, by the launcher's variables, and in real torchrun restarts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trace_hooks.identity import IdentityFinder
from trace_hooks.place import find_place, start_ticks
from trace_hooks.schema import publish_json, rank_file_name
from trace_hooks.settings import Settings, read_settings

sys.path.insert(0, str(Path(__file__).parent))
from processes import environment, rank_files, rows, run, wait_for

CLOCK = ("domain", 0, 0)


def settings(folder: Path, **environ: str) -> Settings:
    return read_settings({"TRACE_HOOKS_FOLDER": str(folder), **environ})


def test_a_single_process_is_rank_0_at_once(tmp_path: Path) -> None:
    code = """
import time
import trace_hooks as th
th.start()
time.sleep(5)
"""
    process_files = tmp_path / "runs"
    script = tmp_path / "script.py"
    script.write_text(code)
    process = subprocess.Popen([sys.executable, str(script)], env=environment(tmp_path))
    wait_for(lambda: list(process_files.glob("*/run.json")), seconds=4)
    process.kill()
    process.wait()


def test_ranks_by_the_launchers_variables() -> None:
    torchrun = find_place({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"})
    assert torchrun is not None
    assert (torchrun.rank, torchrun.world_size, torchrun.local_rank, torchrun.sure) == (
        5,
        8,
        1,
        True,
    )
    slurm = find_place({"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"})
    assert slurm is not None
    assert (slurm.rank, slurm.sure) == (3, False)  # the job may number its ranks otherwise
    assert find_place({"RANK": "8", "WORLD_SIZE": "8"}) is None
    assert find_place({}) is None


def test_rank_0_takes_the_next_free_attempt_and_keeps_t0(tmp_path: Path) -> None:
    folder = tmp_path / "night"
    (folder / "ranks").mkdir(parents=True)
    publish_json({"created_ns": 12345}, folder / "run.json")
    for attempt in (0, 1):
        publish_json({}, folder / "ranks" / rank_file_name(attempt, 3))
    environ = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0"}
    found = IdentityFinder(settings(tmp_path, TRACE_HOOKS_RUN="night"), CLOCK, 0, environ).poll()
    assert found is not None
    assert (found.shared.run, found.shared.attempt, found.shared.created_ns) == ("night", 2, 12345)


def test_another_rank_waits_and_at_the_end_guesses_and_says_so(tmp_path: Path) -> None:
    environ = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "2"}
    finder = IdentityFinder(settings(tmp_path, TRACE_HOOKS_RUN="night"), CLOCK, 0, environ)
    assert finder.poll(stepping=True) is None
    found = finder.poll(last_call=True)
    assert found is not None
    assert (found.shared.run, found.shared.attempt, found.place.rank) == ("night", 0, 2)
    assert "never saw a process group" in found.guesses[0]


def test_runs_have_names_of_their_own(tmp_path: Path) -> None:
    for _ in range(2):
        assert run(tmp_path, "import trace_hooks as th\nth.start()\n")[0] == 0
    names = [path.name for path in (tmp_path / "runs").iterdir()]
    assert len(set(names)) == 2


def test_a_pid_given_anew_is_another_process() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert start_ticks(process.pid) is not None
    process.kill()
    wait_for(lambda: start_ticks(process.pid) is None)  # a zombie counts as gone
    process.communicate()


# The agent's store outlives a restart and gloo would find addresses of dead ranks in it, so the job
# takes a prefix per restart.
RESTARTED = """
import os, sys, time
import torch, torch.distributed as dist
import trace_hooks as th

torch.set_num_threads(1)
tracer = th.start(layout={"dp": int(os.environ["WORLD_SIZE"])})
restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
dist.init_process_group(
    "gloo", store=dist.PrefixStore(restart, store), rank=rank, world_size=world
)
for number in range(4):
    with tracer.step(number):
        dist.all_reduce(torch.ones(8))
        time.sleep(0.3)
    if number == 2 and restart == "0" and rank == 1:
        os._exit(9)
tracer.stop()
dist.destroy_process_group()
"""


@pytest.mark.torch
def test_a_torchrun_restart_is_a_second_attempt_of_the_same_run(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(RESTARTED)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "--max-restarts", "1", "--monitor-interval", "0.2", str(script),
    ]  # fmt: skip
    process = subprocess.run(
        command, env=environment(tmp_path), capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stderr[-3000:]
    (folder,) = (tmp_path / "runs").iterdir()
    info = json.loads((folder / "run.json").read_text())
    assert info["run"] == folder.name
    files = rank_files(tmp_path)
    assert [(f["attempt"], f["rank"]) for f in files] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(f["hooks"]["guesses"] == [] and f["hooks"]["errors"] == {} for f in files)
    ends = [f["end"]["status"] if f["end"] else None for f in files]
    assert ends[1:] == [None, "finished", "finished"]  # rank 1 was gone without a word
    assert ends[0] in ("failed", "stopped")
    steps = {(r["attempt"], r["rank"], r["step"]) for r in rows(tmp_path, "steps")}
    assert {(1, rank, number) for rank in range(2) for number in range(4)} <= steps
    assert {row["method"] for row in rows(tmp_path, "clocks")} == {"same_host"}
    lost = [row for row in rows(tmp_path, "marks") if row["kind"] == "lost"]
    assert [(row["attempt"], row["rank"]) for row in lost] == [(0, 1)]
