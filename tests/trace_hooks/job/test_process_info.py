"""Rank, host and launcher of a process."""

from __future__ import annotations

import subprocess
import sys

from tests.waiting import wait_until
from trace_hooks.job.process_info import find_place, start_ticks


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


def test_a_reused_pid_is_another_process() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert start_ticks(process.pid) is not None
    process.kill()
    wait_until(lambda: start_ticks(process.pid) is None)  # a zombie counts as gone
    process.communicate()
