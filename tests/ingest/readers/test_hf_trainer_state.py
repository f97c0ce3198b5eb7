"""trainer_state.json: one of a real training, and every trap of the format by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.folders import FRAMEWORK_FILES
from tests.reader_results import Imported


def state(*history: dict[str, Any], **keys: Any) -> str:
    """A state with this history."""
    return json.dumps({"epoch": 1.0, "global_step": 9, "log_history": list(history), **keys})


def test_the_state_of_a_real_training(runs: Path) -> None:
    run = Imported(FRAMEWORK_FILES / "trainer_state.json", into=runs)
    assert (run.info["source"], run.info["clock"]) == ("hf_trainer_state", "per_step_relative")
    rows = run.rows("steps", "step", "loss", "tokens")
    history = json.loads((FRAMEWORK_FILES / "trainer_state.json").read_text())["log_history"]
    assert rows == [(e["step"], e["loss"], 32.0) for e in history if "loss" in e]
    assert len(rows) == 6
    (first, *_) = run.rows("steps", "dur_ns", "grad_norm", "lr")
    runtime_s = history[0]["train_runtime"]
    assert first == (
        round(runtime_s * 1e9 / 2),
        history[0]["grad_norm"],
        history[0]["learning_rate"],
    )
    assert run.problems == []
    assert any("ended at step 12" in guess for guess in run.guesses)
    assert any("do not say when steps ran" in guess for guess in run.guesses)


def test_the_log_of_the_same_training_has_the_same_steps(runs: Path) -> None:
    log = Imported(FRAMEWORK_FILES / "trainer.log", into=runs)
    state = Imported(FRAMEWORK_FILES / "trainer_state.json", into=runs)
    known = dict(state.rows("steps", "step", "loss"))
    found = dict(log.rows("steps", "step", "loss"))
    assert found == {step: pytest.approx(loss, abs=6e-4) for step, loss in known.items()}


def test_of_the_checkpoints_of_a_training_the_longest_counts(tmp_path: Path, runs: Path) -> None:
    folder = tmp_path / "in"
    steps = [{"step": step, "loss": 4.0 - step} for step in (1, 2, 3)]
    for name, history in (("checkpoint-2", steps[:2]), ("checkpoint-3", steps)):
        (folder / name).mkdir(parents=True)
        (folder / name / "trainer_state.json").write_text(state(*history))
    run = Imported(folder, into=runs)
    assert run.rows("steps", "step", "loss") == [(1, 3.0), (2, 2.0), (3, 1.0)]
    assert run.table("marks").num_rows == 0


def test_what_older_versions_leave_out_is_not_recorded(tmp_path: Path, runs: Path) -> None:
    history = [
        {"step": 5, "loss": float("nan"), "learning_rate": 1e-4},
        {"step": 5, "eval_loss": 1},
    ]
    path = tmp_path / "trainer_state.json"
    path.write_text(state(*history, {"step": 9, "train_runtime": 7.5, "train_loss": 2}))
    run = Imported(path, into=runs)
    ((step, loss, grad_norm, dur_ns),) = run.rows("steps", "step", "loss", "grad_norm", "dur_ns")
    assert (step, grad_norm, dur_ns) == (5, None, 0)
    assert loss != loss
    assert any("their lengths are not recorded" in guess for guess in run.guesses)


@pytest.mark.parametrize(
    "entry",
    [3, None, {"loss": 1}, {"step": -1, "loss": 1}, {"step": 2**60, "loss": 1}, {"step": "1"}],
)
def test_entries_that_are_none_are_passed_over(tmp_path: Path, runs: Path, entry: Any) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(state(entry, {"step": 1, "loss": [2]}))
    run = Imported(path, into=runs)
    assert run.rows("steps", "step", "loss") == [(1, None)]


def test_a_state_that_is_cut_off_is_read_to_the_cut(tmp_path: Path, runs: Path) -> None:
    text = state(*({"step": step, "loss": 1} for step in range(9)))
    path = tmp_path / "trainer_state.json"
    path.write_text(text[:-20])
    run = Imported(path, into=runs)
    assert [step for (step,) in run.rows("steps", "step")] == list(range(8))
    assert "cut off at byte" in run.problems[0]
