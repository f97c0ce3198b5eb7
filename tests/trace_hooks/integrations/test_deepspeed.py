"""What the integration of DeepSpeed records of a real engine, on one CPU process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import trace_hooks as th
from tests.trace_hooks.tracers import rows

deepspeed = pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
pytestmark = [
    pytest.mark.usefixtures("rank"),
    pytest.mark.filterwarnings("ignore"),  # of DeepSpeed itself
]

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}


@pytest.fixture(scope="module")
def group() -> Iterator[None]:
    """One rank for all tests: DeepSpeed keeps the groups that it has made."""
    with pytest.MonkeyPatch.context() as environ, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": 0, "LOCAL_RANK": 0}
        for name, value in {**variables, "WORLD_SIZE": 1, "DS_ACCELERATOR": "cpu"}.items():
            environ.setenv(name, str(value))
        deepspeed.init_distributed("gloo")
        yield
        torch.distributed.destroy_process_group()


@pytest.fixture
def rank(group: None, plain_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "0")


def made_engine(**changes: Any) -> Any:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    return deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config={**CONFIG, **changes}
    )[0]


def train(engine: Any, num_steps: int) -> list[list[float]]:
    """Losses of the micro-batches of each step."""
    losses = []
    for _ in range(num_steps):
        losses.append([])
        for _ in range(engine.gradient_accumulation_steps()):
            loss = engine(torch.randn(2, 4)).pow(2).mean()
            engine.backward(loss)
            engine.step()
            losses[-1].append(float(loss))
    return losses


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_steps_have_the_numbers_losses_and_micro_batches_of_the_engine(
    tmp_path: Path, stage: int
) -> None:
    engine = made_engine(zero_optimization={"stage": stage})
    train(engine, 3)  # before it is watched
    th.deepspeed.watch(engine, tmp_path)
    losses = train(engine, 3)
    th.start(tmp_path).stop()
    steps = rows(tmp_path, "steps")
    assert [step["step"] for step in steps] == [3, 4, 5]
    means = [sum(of) / len(of) for of in losses]
    assert [step["loss"] for step in steps] == pytest.approx(means, rel=1e-5)
    assert [step["lr"] for step in steps] == pytest.approx([1e-3] * 3)
    assert all(step["grad_norm"] > 0 for step in steps)
    passes = [s for s in rows(tmp_path, "spans") if s["name"] == "engine.backward"]
    assert [(s["step"], s["microbatch"]) for s in passes] == [
        (step, microbatch) for step in (3, 4, 5) for microbatch in (0, 1)
    ]


def test_a_step_lasts_until_the_engine_is_done_with_it(tmp_path: Path) -> None:
    engine = made_engine()
    th.deepspeed.watch(engine, tmp_path)
    train(engine, 2)
    th.start(tmp_path).stop()
    ends = [step["start_ns"] + step["dur_ns"] for step in rows(tmp_path, "steps")]
    spans = [s for s in rows(tmp_path, "spans") if s["name"] == "engine.step"]
    assert len(spans) == 2
    assert all(s["ts_ns"] + s["dur_ns"] <= end for s, end in zip(spans, ends, strict=True))


def test_a_step_that_an_overflow_skips_is_a_step(tmp_path: Path) -> None:
    engine = made_engine(bf16={"enabled": True, "check_grad_overflow": True}, gradient_clipping=0)
    th.deepspeed.watch(engine, tmp_path)
    for factor in (1.0, float("inf"), 1.0):
        for _ in range(2):
            engine.backward((engine(torch.ones(2, 4).bfloat16()) * factor).pow(2).mean())
            engine.step()
    assert engine.skipped_steps == 1
    th.start(tmp_path).stop()
    steps = rows(tmp_path, "steps")
    assert [step["step"] for step in steps] == [0, 1, 2]
    assert [step["grad_norm"] is None for step in steps] == [False, True, False]


def test_a_loaded_checkpoint_goes_on_with_its_number(tmp_path: Path) -> None:
    engine = made_engine()
    train(engine, 4)
    engine.save_checkpoint(str(tmp_path / "saved"))
    resumed = made_engine()
    th.deepspeed.watch(resumed, tmp_path / "runs")
    resumed.load_checkpoint(str(tmp_path / "saved"))
    train(resumed, 2)
    th.start().stop()
    assert [step["step"] for step in rows(tmp_path / "runs", "steps")] == [4, 5]


def test_two_engines_that_take_turns_make_one_step_together(tmp_path: Path) -> None:
    engines = [made_engine(), made_engine()]
    for engine in engines:
        th.deepspeed.watch(engine, tmp_path)
        th.deepspeed.watch(engine)  # again: nothing is counted twice
    for _ in range(3):
        for engine in engines:
            train(engine, 1)
    th.start().stop()
    assert [step["step"] for step in rows(tmp_path, "steps")] == [0, 1, 2]


def test_the_engine_is_as_before_when_the_tracer_stops(tmp_path: Path) -> None:
    engine = made_engine()
    before = dict(vars(engine))
    th.deepspeed.watch(engine, tmp_path)
    assert "step" in vars(engine)
    th.start().stop()
    assert vars(engine).keys() == before.keys()


def test_what_is_no_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"takes the engine that deepspeed\.initialize returns"):
        th.deepspeed.watch(torch.nn.Linear(1, 1), tmp_path)
