"""The tracker for scripts with Accelerate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace_hooks.processes import rows, run

pytest.importorskip("accelerate")
pytestmark = pytest.mark.torch

SCRIPT = """
import torch, trace_hooks as th
from accelerate import Accelerator

tracker = th.accelerate.Tracker(loss="train/loss", first_step=10)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, log_with=tracker)
accelerator.init_trackers("project", config={"lr": 0.1})
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
for micro_batch in range(6):
    with accelerator.accumulate(model):
        accelerator.backward(model(torch.ones(2, 4)).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        number = micro_batch // 2
        accelerator.log({"train/loss": 1.0 + number, "lr": 0.1, "note": "text"}, step=number)
accelerator.log({"loss": 99.0})  # of the epoch
accelerator.end_training()
"""


@pytest.mark.parametrize("module", [(), ("-m", "trace_hooks")], ids=["plain", "traced"])
def test_what_the_script_logs_belongs_to_the_step_that_has_ended(
    tmp_path: Path, module: tuple[str, ...]
) -> None:
    code, _, err = run(
        tmp_path, SCRIPT, module=module, TRACE_HOOKS_SOURCES="modules,optimizer,trainer_logs"
    )
    assert code == 0, err
    recorded = {row["step"]: (row["loss"], row["lr"]) for row in rows(tmp_path, "steps")}
    assert recorded == {10: (1.0, 0.1), 11: (2.0, 0.1), 12: (3.0, 0.1)}
    assert len(rows(tmp_path, "steps")) == 3
    assert not [row for row in rows(tmp_path, "marks") if row["kind"] == "hook_error"]
