"""Copies to host memory: when they may be asked for, and memory that must never be freed."""

from __future__ import annotations

import weakref

import pytest
import torch

from tests.trace_hooks.recording.cuda.pretended_cuda import PretendedCuda, fails, pretended_copy
from trace_hooks.recording.cuda.pinned_memory import PinnedCopy
from trace_hooks.recording.logged_values import OnDevice


def test_a_thread_that_captures_a_graph_does_not_ask_for_a_copy(cuda: PretendedCuda) -> None:
    """The question would end the capture; a step that begins in it asks what can be written."""
    queries: list[int] = []
    copy = pretended_copy(torch.ones(()), lambda: not queries.append(1))
    cuda.is_capturing = True
    assert not copy.is_ready()
    assert not queries
    cuda.is_capturing = False
    assert copy.is_ready()
    assert OnDevice(copy).number() == 1.0


def test_a_copy_that_nobody_asks_for_is_not_freed_after_a_failure(cuda: PretendedCuda) -> None:
    """Such as a number logged in a step that is dropped, or one that had arrived before."""
    copy = pretended_copy(torch.ones(1), fails)
    memory = weakref.ref(copy.values)
    del copy
    assert memory() is not None
    copy = pretended_copy(torch.ones(1), lambda: True)
    memory = weakref.ref(copy.values)
    del copy
    assert memory() is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="pinned memory can be had")
def test_a_copy_without_an_accelerator_raises_and_asks_nothing_at_its_end() -> None:
    with pytest.raises(RuntimeError):
        PinnedCopy(torch.ones(1))


def test_memory_is_not_freed_where_the_device_fails_while_the_copy_begins(
    cuda: PretendedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, made = torch.empty, list[weakref.ref[torch.Tensor]]()

    def without_pinning(*size: torch.Size, pin_memory: bool, **more: object) -> torch.Tensor:
        assert pin_memory
        values = empty(*size, **more)  # type: ignore[call-overload]
        made.append(weakref.ref(values))
        return values  # type: ignore[no-any-return]

    monkeypatch.setattr(torch, "empty", without_pinning)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: fails())
    with pytest.raises(RuntimeError, match="device-side assert"):
        PinnedCopy(torch.ones(3))
    assert [copy() is not None for copy in made] == [True]
