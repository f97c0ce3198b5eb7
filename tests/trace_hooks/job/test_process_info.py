"""Rank, host and launcher of a process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.waiting import wait_until
from trace_hooks.job import process_info
from trace_hooks.job.process_info import Place, find_place, launch_key, start_ticks


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


class Group:
    """A job's default group, as torch.distributed shows it."""

    def get_rank(self) -> int:
        return 3

    def get_world_size(self) -> int:
        return 4


@pytest.mark.parametrize("local_rank", ["", "node0", "-1"])
def test_a_local_rank_that_is_no_number_hides_no_rank(
    local_rank: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_info, "distributed", Group)
    assert find_place({"LOCAL_RANK": local_rank}) == Place(3, 4, 3, sure=True)
    launched = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
    assert find_place(launched) == Place(3, 4, 1, sure=True)


def test_a_job_below_torchrun_without_its_port_has_a_launch() -> None:
    assert launch_key({"TORCHELASTIC_RUN_ID": "none"})


def test_a_reused_pid_is_another_process() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert start_ticks(process.pid) is not None
    process.kill()
    wait_until(lambda: start_ticks(process.pid) is None)  # a zombie counts as gone
    process.communicate()
