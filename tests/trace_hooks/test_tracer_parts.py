"""How the parts of one process are put together."""

from __future__ import annotations

import gc
import signal
import sys
from pathlib import Path

import pytest
import torch

import trace_hooks as th
from trace_hooks.active_tracer import NullTracer
from trace_hooks.recording import guard
from trace_hooks.recording.drain_thread import Drain
from trace_hooks.sources.context import SourceOptions

pytestmark = pytest.mark.usefixtures("plain_environment")


def test_without_a_thread_that_writes_no_hook_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may have no thread left to give."""

    def fails(drain: Drain) -> None:
        raise RuntimeError("can't start new thread")

    def hooked() -> tuple[object, ...]:
        return list(gc.callbacks), signal.getsignal(signal.SIGTERM), sys.excepthook, torch.save

    before = hooked()
    monkeypatch.setattr(Drain, "start", fails)
    tracer = th.start(tmp_path / "runs", sources=["gc", "checkpoint"])
    assert isinstance(tracer, NullTracer)
    assert hooked() == before
    assert guard.account.errors.pop("tracer.start") == 1
    assert guard.account.errors == {}


def test_what_the_user_chose_reaches_the_sources(tmp_path: Path) -> None:
    tracer = th.start(
        tmp_path, level="blocks", sources=["gc"], statistics=3, allow_content=True, layout={"tp": 1}
    )
    try:
        assert tracer.context.options == SourceOptions("blocks", 3, True, (), False)
        assert [source.name for source in tracer.sources] == ["gc"]
        assert str(tracer.context.rank_state.layout) == "tp 1"
        assert all(source.context is tracer.context for source in tracer.sources)
    finally:
        tracer.stop()
    assert tracer.context.rank_state.phase == "ending"
    assert tracer.context.rank_state.ring is None
