"""Functional collectives: the packets stay what they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch._dynamo.backends.registry import lookup_backend
from torch.utils._python_dispatch import TorchDispatchMode

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


def traced_twice(recorder: Recorder, backend: str) -> tuple[list[float], int]:
    """Values of a compiled function and of its gradient, and how many graphs were made."""
    graphs = 0

    def counted(graph: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return lookup_backend(backend)(graph, inputs)

    def summed(x: torch.Tensor) -> torch.Tensor:
        return funcol.all_reduce(x.sin() * 2, "sum", dist.group.WORLD) + 1

    torch.compiler.reset()
    x = torch.arange(4.0)
    function = torch.compile(summed, backend=counted, fullgraph=True)
    return [function(x + n).sum().item() for n in range(2)], graphs


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Inductor's imports
@pytest.mark.sampled
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_collectives_of_compiled_code_have_an_end(recorder: Recorder, backend: str) -> None:
    plain = traced_twice(recorder, backend)
    for _ in installed(FunctionalCollectives, recorder):
        assert traced_twice(recorder, backend) == plain
    rows = recorder.collectives
    assert [(row.op, row.state, row.source) for row in rows] == [
        ("all_reduce", "completed", "functional")
    ] * 2
    assert all(row.end_ns > row.start_ns for row in rows)
    for source in installed(FunctionalCollectives, Recorder()):
        funcol.all_reduce(torch.ones(4), "sum", dist.group.WORLD).wait()
        assert len(source.recorder.collectives) == 1  # once, though packet and overload are hooked


def test_a_dispatch_mode_does_not_make_two_of_one(recorder: Recorder) -> None:
    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    for _ in installed(FunctionalCollectives, recorder):
        with Passing():
            result = torch.ops._c10d_functional.all_reduce(
                torch.ones(4), "sum", dist.group.WORLD.group_name
            )
            torch.ops._c10d_functional.wait_tensor(result)
    assert [row.op for row in recorder.collectives] == ["all_reduce"]
