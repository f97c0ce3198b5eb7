"""Whose engines the integration of DeepSpeed holds; DeepSpeed itself runs in test_deepspeed.py."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import ref

import pytest
import torch

from tests.trace_hooks.tracers import rows, start
from tests.waiting import wait_until
from trace_hooks import integrations

pytestmark = pytest.mark.torch


class Engine(torch.nn.Module):
    """As much of DeepSpeedEngine as is read."""

    def __init__(self) -> None:
        super().__init__()
        self.module = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.1)
        self.global_steps = self.micro_steps = 0
        self._is_gradient_accumulation_boundary = None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.module(inputs)

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def step(self) -> None:
        self.optimizer.step()
        self.global_steps += 1

    def save_checkpoint(self) -> None: ...
    def load_checkpoint(self) -> None: ...

    def gradient_accumulation_steps(self) -> int:
        return 1

    def is_gradient_accumulation_boundary(self) -> bool:
        return True

    def get_lr(self) -> list[float]:
        return [0.1]

    def was_step_applied(self) -> bool:
        return False


class PipelineEngine(Engine): ...


@pytest.fixture
def deepspeed(monkeypatch: pytest.MonkeyPatch, plain_environment: None) -> Any:
    """The integration, with a DeepSpeed that has these engines."""
    names = ("runtime", "runtime.engine", "runtime.pipe", "runtime.pipe.engine")
    for name in ("deepspeed", *(f"deepspeed.{name}" for name in names)):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["deepspeed.runtime.engine"].DeepSpeedEngine = Engine  # type: ignore[attr-defined]
    pipe = sys.modules["deepspeed.runtime.pipe.engine"]
    pipe.PipelineEngine = PipelineEngine  # type: ignore[attr-defined]
    instructions = ("ReduceTiedGrads", "ReduceGrads", "LoadMicroBatch", "SendActivation")
    instructions += ("RecvActivation", "SendGrad", "RecvGrad", "ForwardPass", "BackwardPass")
    schedule = ModuleType("deepspeed.runtime.pipe.schedule")
    for name in (*instructions, "OptimizerStep"):
        setattr(schedule, name, type(name, (), {}))
    sys.modules["deepspeed.runtime.pipe"].schedule = schedule  # type: ignore[attr-defined]
    own = "trace_hooks.integrations.deepspeed"
    for name in (own, f"{own}_pipeline"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr(integrations, "deepspeed", raising=False)  # of DeepSpeed itself
    yield import_module(own)
    for name in (own, f"{own}_pipeline"):
        sys.modules.pop(name, None)


def trained(engine: Any) -> None:
    engine.backward(engine(torch.ones(2, 4)).pow(2).mean())
    engine.step()


def test_an_engine_that_the_job_drops_is_freed(deepspeed: Any, tmp_path: Path) -> None:
    tracer = start(tmp_path, sources=["modules", "optimizer"])
    engine = Engine()
    deepspeed.watch(engine)
    trained(engine)
    gone = [ref(engine), ref(engine.module), ref(engine.module.weight)]
    del engine
    gc.collect()
    assert [held() for held in gone] == [None] * 3
    tracer.stop()
    names = [row["name"] for row in wait_until(lambda: rows(tmp_path, "spans"))]
    assert {"engine.backward", "engine.step"} <= set(names)


def test_the_methods_of_an_engine_are_its_own_again_when_the_hooks_stop(
    deepspeed: Any, tmp_path: Path
) -> None:
    engine = Engine()
    before = set(vars(engine))
    deepspeed.watch(engine, tmp_path)
    assert {"forward", "step"} <= set(vars(engine))
    start(tmp_path).stop()
    assert set(vars(engine)) == before
