"""Evaluations between the steps of real training loops."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from ingest.index.indexer import Indexer
from ingest.run import open_run
from tests.trace_hooks.tiny_models import TinyGPT, batch, loss_of
from tests.trace_hooks.tracers import rows, start
from trace_hooks.sources.training import optimizer as optimizer_source
from trace_hooks.sources.training.optimizer import live_optimizers

SOURCES = ["modules", "optimizer", "data"]

pytestmark = pytest.mark.usefixtures("plain_environment", "only_optimizer")


@pytest.fixture
def only_optimizer(monkeypatch) -> None:
    """Other tests' optimizers would make the end of the first step known late; hooks on parameters
    keep some alive for good.
    """
    gc.collect()
    others = live_optimizers()
    monkeypatch.setattr(optimizer_source, "live_optimizers", lambda: live_optimizers() - others)


class Job:
    """Trains TinyGPT for some steps; `evaluates(step)`: whether it evaluates before a step."""

    def __init__(self, folder: Path, evaluates: Callable[[int], bool], own_steps: bool = False):
        self.folder = folder
        self.evaluates = evaluates
        self.own_steps = own_steps
        self.losses: list[float] = []

    def run(self, steps: int = 4, last: bool = False, hooks: bool = True) -> Job:
        torch.manual_seed(3)
        tracer = start(self.folder, sources=SOURCES) if hooks else None
        self.tracer = tracer
        model = TinyGPT()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        batches = iter(DataLoader([batch(n)[0] for n in range(99)], batch_size=2))
        for step in range(steps):
            if self.evaluates(step):
                self.evaluate(model)
            with tracer.step(step) if tracer and self.own_steps else nullcontext():
                loss = loss_of(model, next(batches))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            self.losses.append(loss.item())
        if last:
            self.evaluate(model)
        if tracer:
            tracer.stop()
        return self

    def evaluate(self, model: TinyGPT) -> None:
        model.eval()
        with torch.no_grad():
            for tokens in DataLoader([batch(n)[0] for n in range(6)], batch_size=2):
                loss_of(model, tokens)
        model.train()

    def rows(self, table: str, **wanted: object) -> list[dict]:
        found = rows(self.folder, table)
        return [row for row in found if all(row[k] == v for k, v in wanted.items())]


@pytest.fixture(params=[False, True], ids=["steps recognised", "steps of the job's own"])
def own_steps(request) -> Iterator[bool]:
    return request.param


def end_of(row: dict) -> int:
    return row["ts_ns"] + row["dur_ns"]


def test_an_evaluation_is_a_span_between_two_steps(tmp_path, own_steps):
    job = Job(tmp_path, lambda step: step == 2, own_steps).run()
    (found,) = job.rows("spans", kind="evaluation")
    steps = {row["step"]: row for row in job.rows("steps")}
    assert sorted(steps) == [0, 1, 2, 3]
    assert found["ts_ns"] >= steps[1]["start_ns"] + steps[1]["dur_ns"]
    assert steps[2]["start_ns"] >= end_of(found)
    first, *_ = [
        row for row in job.rows("spans", kind="data_fetch") if row["ts_ns"] >= found["ts_ns"]
    ]
    assert first["ts_ns"] - found["ts_ns"] < found["dur_ns"]  # loading the first batch is in it
    assert all(
        end_of(row) <= found["ts_ns"] or row["ts_ns"] >= end_of(found)
        for row in job.rows("spans", kind="forward")
    )


def test_the_index_has_steps_without_it(tmp_path, own_steps):
    job = Job(tmp_path, lambda step: step == 2, own_steps).run()
    (found,) = job.rows("spans", kind="evaluation")
    (folder,) = (path.parent for path in tmp_path.glob("*/run.json"))
    with Indexer(folder) as indexer:
        indexer.refresh()
        windows = indexer.database.connection.execute(
            "SELECT step, window_ns, end_ns - begin_ns FROM step_rollup WHERE step >= 0 ORDER BY 1"
        ).fetchall()
    assert [step for step, _, _ in windows] == [0, 1, 2, 3]
    assert [whole - window for _, window, whole in windows] == [0, 0, found["dur_ns"], 0]


def test_batches_of_an_evaluation_are_no_batches_of_a_step(tmp_path, own_steps):
    job = Job(tmp_path, lambda step: step == 2, own_steps).run()
    assert [row["step"] for row in job.rows("data_batches")] == [0, 1, 2, 3]
    assert [row["tokens"] for row in job.rows("steps")] == [10.0] * 4


def test_one_before_the_first_step_and_one_after_the_last(tmp_path, own_steps):
    job = Job(tmp_path, lambda step: step == 0, own_steps).run(steps=3, last=True)
    before, after = sorted(job.rows("spans", kind="evaluation"), key=lambda row: row["ts_ns"])
    first, *_, last = sorted(job.rows("steps"), key=lambda row: row["step"])
    assert (first["step"], last["step"]) == (0, 2)
    assert first["start_ns"] >= end_of(before)
    assert after["ts_ns"] >= last["start_ns"] + last["dur_ns"]


def test_an_evaluation_and_a_save_after_a_step_have_its_number(tmp_path):
    class Saving(Job):
        """Fetches with the loop, and saves after each evaluation."""

        def run(self):
            self.tracer = start(self.folder, sources=[*SOURCES, "checkpoint"])
            model = TinyGPT()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, tokens in enumerate(DataLoader([batch(n)[0] for n in range(20)], 2)):
                if self.evaluates(step):
                    self.evaluate(model)
                    torch.save(model.state_dict(), self.folder / "weights.pt")
                if step == 8:
                    break
                loss_of(model, tokens).backward()
                optimizer.step()
                optimizer.zero_grad()
            torch.save(model.state_dict(), self.folder / "weights.pt")
            self.tracer.stop()
            return self

    job = Saving(tmp_path, lambda step: step in (3, 8)).run()
    assert [row["step"] for row in job.rows("steps")] == list(range(8))
    assert sorted(row["step"] for row in job.rows("spans", kind="evaluation")) == [2, 7]
    assert sorted(row["step"] for row in job.rows("spans", kind="checkpoint")) == [2, 7, 7]
    assert sorted(row["step"] for row in job.rows("checkpoints")) == [2, 7, 7]
    assert {row["step"] for row in job.rows("spans", kind="forward")} <= {-1, *range(8)}
    (folder,) = (path.parent for path in tmp_path.glob("*/run.json"))
    with Indexer(folder) as indexer:
        indexer.refresh()
    with open_run(folder) as run:
        (summary,) = run.ask("run_summary").to_pylist()
        assert run.ask("steps").column("step").to_pylist() == list(range(8))
        assert (summary["last_step"], run.ask("run_card").to_pylist()[0]["last_step"]) == (7, 7)


def test_a_step_goes_on_after_a_save_although_no_forward_is_seen(tmp_path):
    class Saving(Job):
        """Its model is not hooked, and a save follows the batch of step 3."""

        def run(self):
            self.tracer = start(self.folder, sources=["optimizer", "data", "checkpoint"])
            model = TinyGPT()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, tokens in enumerate(DataLoader([batch(n)[0] for n in range(12)], 2)):
                if step == 3:
                    torch.save(model.state_dict(), self.folder / "weights.pt")
                loss_of(model, tokens).backward()
                optimizer.step()
                optimizer.zero_grad()
            self.tracer.stop()
            return self

    job = Saving(tmp_path, lambda step: False).run()
    assert [row["step"] for row in job.rows("spans", kind="optimizer")] == list(range(6))
    assert [row["step"] for row in job.rows("spans", kind="checkpoint")] == [2]
    assert [row["step"] for row in job.rows("checkpoints")] == [2]


@pytest.mark.sampled(every=2)
def test_forwards_before_every_step_are_no_evaluation(tmp_path, own_steps):
    """A job that learns from what its model generates; the first of them is not known yet."""
    job = Job(tmp_path, lambda step: True, own_steps).run()
    (found,) = job.rows("spans", kind="evaluation")
    assert end_of(found) <= min(row["start_ns"] for row in job.rows("steps"))


def test_what_the_job_calls_otherwise_is_no_evaluation(tmp_path, own_steps):
    class Named(Job):
        def evaluate(self, model):
            with self.tracer.span("rollout"):
                super().evaluate(model)

    job = Named(tmp_path, lambda step: step == 2, own_steps).run()
    assert job.rows("spans", kind="evaluation") == []
    assert len(job.rows("spans", name="rollout")) == 1


def test_a_job_can_say_what_is_one(tmp_path, own_steps):
    class Stated(Job):
        def evaluate(self, model):
            with self.tracer.span("validate", kind="evaluation"):
                super().evaluate(model)

    job = Stated(tmp_path, lambda step: step > 0, own_steps).run()
    found = sorted(job.rows("spans", kind="evaluation"), key=lambda row: row["ts_ns"])
    assert [row["name"] for row in found] == ["validate"] * 3
    for row, step in zip(found, job.rows("steps")[1:], strict=True):
        assert step["start_ns"] >= end_of(row)
    assert [row["step"] for row in job.rows("data_batches")] == [0, 1, 2, 3]


def test_one_with_gradients_is_no_step_if_the_job_says_so(tmp_path):
    class Stated(Job):
        def evaluate(self, model):
            with self.tracer.span("validate", kind="evaluation"):
                with self.tracer.span("inner", kind="evaluation"):
                    loss_of(model, batch(0))
                loss_of(model, batch(0))

    job = Stated(tmp_path, lambda step: step == 2).run()
    (outer,) = job.rows("spans", name="validate")
    steps = job.rows("steps")
    assert [row["step"] for row in steps] == [0, 1, 2, 3]
    assert steps[2]["start_ns"] >= end_of(outer)
    assert len(job.rows("spans", kind="forward", name="head")) == 4


def test_one_whose_end_is_never_stated_ends_with_the_next_step(tmp_path, own_steps):
    class Open(Job):
        def evaluate(self, model):
            self.tracer.span("validate", kind="evaluation").__enter__()
            super().evaluate(model)

    job = Open(tmp_path, lambda step: step == 2, own_steps).run(steps=6)
    assert [row["step"] for row in job.rows("steps")] == list(range(6))
    heads = job.rows("spans", kind="forward", name="head")
    assert len(heads) >= 5  # the first one after it may still count as evaluated


def test_training_on_another_thread_is_still_recorded(tmp_path):
    class Aside(Job):
        def evaluate(self, model):
            begun, done = threading.Event(), threading.Event()

            def aside():
                with self.tracer.span("validate", kind="evaluation"):
                    begun.set()
                    done.wait(60)

            thread = threading.Thread(target=aside)
            thread.start()
            begun.wait(60)
            loss_of(model, batch(0)).backward()
            model.zero_grad()
            done.set()
            thread.join()

    job = Aside(tmp_path, lambda step: step == 2).run()
    assert len(job.rows("spans", kind="forward", name="head")) == 5


def test_forwards_without_gradients_of_a_model_in_training_mode_are_none(tmp_path, own_steps):
    class Training(Job):
        def evaluate(self, model):
            with torch.no_grad():
                loss_of(model, batch(0))

    job = Training(tmp_path, lambda step: step == 2, own_steps).run()
    assert job.rows("spans", kind="evaluation") == []


def test_losses_are_the_same_to_the_bit(tmp_path, own_steps):
    def evaluates(step):
        return step % 2 == 0

    plain = Job(tmp_path, evaluates).run(hooks=False)
    traced = Job(tmp_path, evaluates, own_steps).run()
    assert traced.losses == plain.losses


class Engine(nn.Module):
    """Sets the mode of its model alone, as DeepSpeed's engine does."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def train(self, mode: bool = True) -> Engine:
        self.module.train(mode)
        return self

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.module(*inputs)


def test_an_engine_that_keeps_its_own_mode_evaluates_too(tmp_path: Path) -> None:
    tracer = start(tmp_path, sources=SOURCES)
    engine = Engine(TinyGPT())
    tracer.watch(engine)
    optimizer = torch.optim.AdamW(engine.parameters(), lr=1e-2)
    for step in range(3):
        loss_of(engine, batch(step)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 1:
            engine.eval()
            assert engine.training
            with torch.no_grad():
                loss_of(engine, batch(9))
            engine.train()
    tracer.stop()
    (evaluation,) = [row for row in rows(tmp_path, "spans") if row["kind"] == "evaluation"]
    assert evaluation["step"] == 1


def test_the_batch_that_was_fetched_before_one_is_that_of_the_step_after_it(tmp_path):
    def wanted(step):
        return step % 4 == 1

    class Late(Job):
        """Evaluates first of all in an iteration, which has its batch by then."""

        def run(self):
            self.tracer = start(self.folder, sources=SOURCES)
            model = TinyGPT()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, tokens in enumerate(DataLoader([batch(n)[0] for n in range(12)], 2)):
                if self.evaluates(step):
                    self.evaluate(model)
                loss_of(model, tokens).backward()
                optimizer.step()
                optimizer.zero_grad()
            self.tracer.stop()
            return self

    job = Late(tmp_path, wanted).run()
    assert [row["tokens"] for row in job.rows("steps")] == [10.0] * 6
    assert [row["step"] for row in job.rows("data_batches")] == list(range(6))
    begins = [row["ts_ns"] for row in job.rows("spans", name="list start")]
    assert [row["ts_ns"] for row in job.rows("spans", kind="evaluation")] == pytest.approx(
        begins[1:], abs=5_000_000
    )


def test_a_frozen_model_may_be_a_teacher_and_is_not_evaluated(tmp_path):
    class Taught(Job):
        def evaluate(self, model):
            self.tracer.watch(self.teacher)
            with torch.no_grad():
                loss_of(self.teacher, batch(0))

    job = Taught(tmp_path, lambda step: step % 2 == 0)
    job.teacher = TinyGPT().eval().requires_grad_(False)
    job.run()
    assert job.rows("spans", kind="evaluation") == []
    assert len(job.rows("spans", kind="forward", name="TinyGPT 2")) == 2
