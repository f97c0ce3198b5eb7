"""Functional collectives: the packets stay what they are."""

from __future__ import annotations

import pytest
import torch

from tests.trace_hooks.sources.communication.one_rank import installed
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.communication.functional import FunctionalCollectives

pytestmark = pytest.mark.usefixtures("one_rank")


def test_packets_keep_their_identity_and_hash(recorder: Recorder) -> None:
    packet = torch.ops._c10d_functional.all_reduce
    known, name, overload = {packet: 1}, str(packet), packet.default
    for _ in installed(FunctionalCollectives, recorder):
        assert torch.ops._c10d_functional.all_reduce is packet
        assert known[packet] == 1
        assert str(packet) == name
        assert packet.default is overload
