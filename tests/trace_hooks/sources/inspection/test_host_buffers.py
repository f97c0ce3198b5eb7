"""Memory that captures are copied into: whose it is when, and how much of it is kept."""

from __future__ import annotations

import pytest
import torch

from trace_hooks.sources.inspection import host_buffers
from trace_hooks.sources.inspection.host_buffers import HostBuffers

pytestmark = pytest.mark.torch


def test_what_was_given_back_is_taken_again_in_any_shape_of_its_size():
    buffers = HostBuffers()
    first = buffers.take(torch.Size([2, 3, 4]))
    assert buffers.take(torch.Size([2, 3, 4])).data_ptr() != first.data_ptr()
    buffers.give(first)
    assert buffers.take(torch.Size([24])).data_ptr() == first.data_ptr()
    assert buffers.take(torch.Size([0])).shape == (0,)


def test_no_more_than_the_limit_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host_buffers, "MAX_FREE_BYTES", 100)
    buffers = HostBuffers()
    kept, lost = (buffers.take(torch.Size([16])) for _ in range(2))
    buffers.give(kept)
    buffers.give(lost)  # 128 bytes
    assert buffers.take(torch.Size([16])).data_ptr() == kept.data_ptr()
    buffers.give(kept)
    buffers.clear()
    other = torch.empty(20)
    buffers.give(other)  # 80 bytes: there is room again
    assert buffers.take(torch.Size([20])).data_ptr() == other.data_ptr()
