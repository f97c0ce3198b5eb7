"""Runs that files are made of, and a hub over them."""

from __future__ import annotations

import shutil
from itertools import product

import pytest

from app.runs.hub import Hub
from sample_traces import RECORDED
from tests.app.share.page_parser import HOSTILE
from tests.runs_builder import RunBuilder, restarted_run, two_rank_run
from tests.stuck_runs import stuck_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared") / "runs"
    shutil.copytree(RECORDED / "slow_rank", folder / "slow")
    hosts = ["</script><script>alert(2)</script>", '"onload="alert(3)']
    two_rank_run(folder / HOSTILE)
    RunBuilder(folder / HOSTILE, 2, hosts=hosts).rank_files()
    RunBuilder(folder / "empty", 2)
    restarted_run(folder / "again")
    stuck_run(folder / "stuck")
    relative = RunBuilder(folder / "relative", 2, clock="per_step_relative", source="import")
    for rank, step in product(range(2), range(3)):
        relative.step(rank, step, 0, 100)
        relative.span(rank, step, "forward", 10, 90)
    relative.rank_files()
    relative.publish()
    return folder


@pytest.fixture(scope="module")
def hub(runs):
    hub = Hub(runs)
    yield hub
    hub.close()
