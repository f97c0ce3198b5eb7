"""A group of one rank on gloo, and the sources of communication on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch.distributed as dist
from torch.distributed import distributed_c10d

from tests.trace_hooks.sources.communication.one_rank import installed
from trace_hooks.recording import guard
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.communication.collectives import Collectives
from trace_hooks.sources.communication.flight_recorder import FlightRecorder

GROUP_NAMES = itertools.count(1_000, 1_000)


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # torch's Flight Recorder keeps the entries of earlier groups of this process, by group name
    distributed_c10d._world.group_count = next(GROUP_NAMES)
    store = tmp_path_factory.mktemp("store") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def recorder(one_rank: None) -> Iterator[Recorder]:
    yield Recorder()
    guard.account.reset()  # a hook that a test made fail is on again


@pytest.fixture
def wrapped(recorder: Recorder) -> Iterator[Collectives]:
    yield from installed(Collectives, recorder)


@pytest.fixture
def flight(recorder: Recorder) -> Iterator[FlightRecorder]:
    yield from installed(FlightRecorder, recorder)
