"""Names of torch.distributed are replaced while a source is installed, where there are any."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch.distributed as dist

from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.communication.c10d_source import C10dSource
from trace_hooks.sources.context import SourceContext

pytestmark = pytest.mark.torch


class Barriers(C10dSource):
    """Counts calls of barrier."""

    name = "barriers"

    def _replace(self, distributed: Any) -> None:
        self.num = 0
        self._patches.replace(distributed, "barrier", partial(_counted, self))


def _counted(source: Barriers, original: Any) -> Any:
    def barrier() -> None:
        source.num += 1

    return barrier


def barriers() -> Barriers:
    return Barriers(SourceContext(Recorder(), None))  # type: ignore[arg-type]


def test_what_it_replaces_is_restored() -> None:
    original = dist.barrier
    source = barriers()
    source.install()
    assert source.active
    dist.barrier()
    source.uninstall()
    assert (source.num, source.active) == (1, False)
    assert dist.barrier is original


def test_a_torch_without_distributed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_available", lambda: False)
    original = dist.barrier
    source = barriers()
    source.install()
    assert not source.active
    assert dist.barrier is original
    source.uninstall()
