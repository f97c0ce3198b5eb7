"""The callback for Lightning's Trainer, with one rank and with two that Lightning starts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.trace_hooks.processes import rank_files, rows, run

pytest.importorskip("lightning")
pytestmark = pytest.mark.torch

SCRIPT = """
import sys, json, torch, trace_hooks as th, lightning as L
from torch.utils.data import DataLoader

class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.losses = []
    def training_step(self, batch, index):
        loss = self.layer(batch).square().mean() + 1
        self.losses.append(float(loss.detach()))
        self.log("train_loss", loss, on_step="epoch" not in sys.argv, on_epoch=True)
        return loss
    def validation_step(self, batch, index):
        if "pruned" in sys.argv and not self.trainer.sanity_checking:
            raise RuntimeError("pruned")
        self.log("val_loss", self.layer(batch).mean())
    def forward(self, batch):
        return self.layer(batch)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

torch.manual_seed(1)
module, data = Module(), torch.randn(32, 4)
devices = 2 if "two" in sys.argv else 1
resumed = next((argument for argument in sys.argv if argument.endswith(".ckpt")), None)
callbacks = [th.lightning.Callback()] if "callback" in sys.argv else []
if "saves" in sys.argv:
    callbacks += [L.pytorch.callbacks.ModelCheckpoint(".", "{step}", every_n_train_steps=2)]
trainer = L.Trainer(accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto",
    max_steps=5 if resumed else 3, accumulate_grad_batches=2, log_every_n_steps=1,
    val_check_interval=4, enable_progress_bar=False, enable_model_summary=False,
    enable_checkpointing="saves" in sys.argv, callbacks=callbacks,
    limit_train_batches=4 if "short" in sys.argv else 16,
    logger=L.pytorch.loggers.CSVLogger("logs"))
try:
    trainer.fit(module, DataLoader(data, 2), DataLoader(data[:4], 2), ckpt_path=resumed)
except RuntimeError:
    module(data).sum().backward()
if devices == 1:
    trainer.save_checkpoint("model.ckpt")
if trainer.is_global_zero:
    print("LOSSES", json.dumps(module.losses))
"""
SOURCES = "modules,optimizer,data,trainer_logs"


def trained(folder: Path, *arguments: str, module: tuple[str, ...] = ()) -> list[float]:
    code, out, err = run(folder, SCRIPT, *arguments, module=module, TRACE_HOOKS_SOURCES=SOURCES)
    assert code == 0, err
    line = next(line for line in out.splitlines() if line.startswith("LOSSES"))
    losses: list[float] = json.loads(line.removeprefix("LOSSES"))
    return losses


def steps(folder: Path, rank: int = 0) -> dict[int, dict[str, Any]]:
    found = [row for row in rows(folder, "steps") if row["rank"] == rank]
    assert len({row["step"] for row in found}) == len(found), "a step is counted twice"
    return {row["step"]: row for row in found}


@pytest.mark.parametrize("module", [(), ("-m", "trace_hooks")], ids=["plain", "traced"])
def test_steps_have_the_mean_loss_of_their_microbatches(
    tmp_path: Path, module: tuple[str, ...]
) -> None:
    losses = trained(tmp_path, "callback", module=module)
    recorded = steps(tmp_path)
    means = {step: sum(losses[2 * step : 2 * step + 2]) / 2 for step in range(3)}
    assert {step: row["loss"] for step, row in recorded.items()} == pytest.approx(means)
    assert [row["lr"] for row in recorded.values()] == pytest.approx([0.1] * 3)
    assert not [row for row in rows(tmp_path, "marks") if row["kind"] == "hook_error"]


def test_validations_are_spans_between_the_steps(tmp_path: Path) -> None:
    trained(tmp_path, "callback")
    spans = [row for row in rows(tmp_path, "spans") if row["name"] == "validation"]
    assert len(spans) == 2, "the one of the sanity check, and that after step 1"
    windows = [
        (row["start_ns"], row["start_ns"] + row["dur_ns"]) for row in steps(tmp_path).values()
    ]
    for span in spans:
        end_ns = span["ts_ns"] + span["dur_ns"]
        assert span["kind"] == "evaluation"
        assert all(end_ns <= begin or span["ts_ns"] >= end for begin, end in windows)


def test_a_resumed_training_goes_on_with_its_numbers(tmp_path: Path) -> None:
    trained(tmp_path)
    trained(tmp_path, "callback", "model.ckpt")
    assert sorted(steps(tmp_path)) == [3, 4]


@pytest.mark.parametrize(
    ("length", "epochs"), [((), []), (("short",), [1, 2])], ids=["in an epoch", "at its end"]
)
def test_a_training_resumed_from_a_checkpoint_saved_while_training_has_lightnings_numbers(
    tmp_path: Path, length: tuple[str, ...], epochs: list[int]
) -> None:
    trained(tmp_path, "saves", *length)
    losses = trained(tmp_path, "callback", "step=2.ckpt", *length)
    means = {2 + step: sum(losses[2 * step : 2 * step + 2]) / 2 for step in range(3)}
    recorded = steps(tmp_path)
    assert {step: row["loss"] for step, row in recorded.items()} == pytest.approx(means)
    with (tmp_path / "logs/lightning_logs/version_1/metrics.csv").open() as file:
        logged = {int(row["step"]) for row in csv.DictReader(file) if row["train_loss_step"]}
    assert sorted(recorded) == sorted(logged)
    notes = [row["text"] for row in rows(tmp_path, "marks") if row["kind"] == "note"]
    assert [note for note in notes if "epoch" in note] == [f"epoch {n} begins" for n in epochs]


def test_ranks_that_lightning_starts_are_one_run(tmp_path: Path) -> None:
    trained(tmp_path, "callback", "two")
    assert [(info["rank"], info["world_size"]) for info in rank_files(tmp_path)] == [(0, 2), (1, 2)]
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert sorted(steps(tmp_path, 1)) == [0, 1, 2]


def test_without_the_callback_what_the_module_logs_is_recorded(tmp_path: Path) -> None:
    losses = trained(tmp_path, module=("-m", "trace_hooks"))
    logged = {step: losses[2 * step + 1] for step in range(3)}  # Lightning logs the last one
    assert {step: row["loss"] for step, row in steps(tmp_path).items()} == pytest.approx(logged)


def test_a_mean_over_the_epoch_is_no_loss_of_a_step(tmp_path: Path) -> None:
    trained(tmp_path, "epoch", module=("-m", "trace_hooks"))
    assert {row["loss"] for row in steps(tmp_path).values()} == {None}


def test_a_validation_ends_with_the_exception_that_ends_it(tmp_path: Path) -> None:
    trained(tmp_path, "callback", "pruned")
    _, validation = [row for row in rows(tmp_path, "spans") if row["kind"] == "evaluation"]
    *_, forward = [row for row in rows(tmp_path, "spans") if row["kind"] == "forward"]
    assert forward["ts_ns"] >= validation["ts_ns"] + validation["dur_ns"]
