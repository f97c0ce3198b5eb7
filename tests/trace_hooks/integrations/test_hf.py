"""The callback for transformers' Trainer, on a model with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.trace_hooks.processes import rows, run

pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

SCRIPT = """
import sys, json, torch, trace_hooks as th
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

class Sequences(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, item):
        ids = (item + torch.arange(8)) % 31
        return {"input_ids": ids, "labels": ids}

callbacks = [th.hf.Callback()] if "callback" in sys.argv else []
torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=31, n_positions=8))
steps = 6 if "resume" in sys.argv else 4
arguments = TrainingArguments("out", max_steps=steps, per_device_train_batch_size=2,
    gradient_accumulation_steps=2, logging_steps=1, save_steps=4, eval_strategy="steps",
    eval_steps=2, report_to=[], use_cpu=True, disable_tqdm=True)
trainer = Trainer(model, arguments, train_dataset=Sequences(), eval_dataset=Sequences(),
    callbacks=callbacks)
trainer.train(resume_from_checkpoint="resume" in sys.argv)
losses = {log["step"]: log["loss"] for log in trainer.state.log_history if "loss" in log}
print("LOSSES", json.dumps(losses))
"""
SOURCES = "modules,optimizer,data,trainer_logs"


def trained(folder: Path, *arguments: str, module: tuple[str, ...] = ()) -> dict[int, float]:
    code, out, err = run(
        folder, SCRIPT, *arguments, module=module, TRACE_HOOKS_SOURCES=SOURCES, HF_HUB_OFFLINE="1"
    )
    assert code == 0, err
    line = next(line for line in out.splitlines() if line.startswith("LOSSES"))
    return {int(step): loss for step, loss in json.loads(line.removeprefix("LOSSES")).items()}


def steps(folder: Path) -> dict[int, dict[str, Any]]:
    found = rows(folder, "steps")
    assert len({row["step"] for row in found}) == len(found), "a step is counted twice"
    return {row["step"]: row for row in found}


@pytest.mark.parametrize("module", [(), ("-m", "trace_hooks")], ids=["plain", "traced"])
def test_steps_are_those_of_the_trainer_and_have_its_numbers(
    tmp_path: Path, module: tuple[str, ...]
) -> None:
    losses = trained(tmp_path, "callback", module=module)
    recorded = steps(tmp_path)
    assert {step: row["loss"] for step, row in recorded.items()} == pytest.approx(losses)
    assert all(row["grad_norm"] > 0 and row["lr"] > 0 for row in recorded.values())
    texts = [row["text"] for row in rows(tmp_path, "marks") if row["kind"] == "note"]
    assert texts[0] == "epoch 0 begins"
    assert [text.partition(":")[0] for text in texts[1:]] == [
        "evaluation after step 2",
        "evaluation after step 4",
        "checkpoint of step 4 is written",
    ]
    assert not [row for row in rows(tmp_path, "marks") if row["kind"] == "hook_error"]


def test_a_resumed_training_goes_on_with_its_numbers(tmp_path: Path) -> None:
    trained(tmp_path)
    trained(tmp_path, "callback", "resume", module=())
    assert sorted(steps(tmp_path)) == [5, 6]


def test_without_the_callback_the_numbers_of_the_log_are_recorded(tmp_path: Path) -> None:
    losses = trained(tmp_path, module=("-m", "trace_hooks"))
    recorded = {step + 1: row["loss"] for step, row in steps(tmp_path).items()}
    assert recorded == pytest.approx(losses)
