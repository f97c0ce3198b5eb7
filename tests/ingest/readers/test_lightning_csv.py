"""metrics.csv of Lightning: one of a real training, and damage by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnose_run
from ingest.readers.lightning_csv import recognises
from ingest.readers.parsing.sources import sources
from ingest.run import open_run
from tests.folders import FRAMEWORK_FILES
from tests.reader_results import Imported


def test_the_table_of_a_real_training(runs: Path) -> None:
    path = FRAMEWORK_FILES / "metrics.csv"
    run = Imported(path, into=runs)
    assert (run.info["source"], run.info["clock"]) == ("lightning_csv", "per_step_relative")
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    losses = [(int(row["step"]), float(row["train_loss"])) for row in table if row["train_loss"]]
    rates = [(int(row["step"]), float(row["lr-Adam"])) for row in table if row["lr-Adam"]]
    found = run.rows("steps", "step", "loss", "lr")
    assert [(step, loss) for step, loss, _ in found if loss is not None] == losses
    assert [(step, lr) for step, _, lr in found if lr is not None] == rates
    assert set(run.rows("steps", "dur_ns")) == {(0,)}
    assert any("1 other scalars were left out (val_loss)" in guess for guess in run.guesses)
    assert any("their lengths are not recorded" in guess for guess in run.guesses)


def test_lengths_that_are_not_recorded_are_not_judged(runs: Path) -> None:
    with open_run(Imported(FRAMEWORK_FILES / "metrics.csv", into=runs).folder) as run:
        steps = run.ask("steps").to_pylist()
        assert {row["step_ms"] for row in steps} == {row["tokens_per_s"] for row in steps} == {None}
        assert {row["step_ms"] for row in run.ask("throughput").to_pylist()} == {None}
        assert run.ask("rank_phases").num_rows == 0
        verdicts = diagnose_run(run)
    assert not verdicts.findings
    assert not [text for text in verdicts.checked if "steps is 5 % longer" in text]


def test_rows_without_a_step_are_counted(tmp_path: Path, runs: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step,train_loss\n0,1,2.5\n0,x,2\n0,2,\n0,-3,1\n0,4,abc\n0,5,nan\n0,6")
    run = Imported(path, into=runs)
    assert [step for (step,) in run.rows("steps", "step")] == [1, 5]
    assert "2 rows without a step were left out" in run.problems[0]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("epoch,step,train_loss\n0,1,2\n", True),
        ("step,epoch,train/loss\r\n1,0,2\n", True),
        ("epoch,step,accuracy\n0,1,2\n", False),
        ("step,train_loss\n1,2\n", False),
        ("epoch,step,train_loss", False),
        ("A sentence, of one step, an epoch, train_loss and more.\n", False),
    ],
)
def test_which_tables_are_lightnings(tmp_path: Path, text: str, is_one: bool) -> None:
    (tmp_path / "m.csv").write_text(text)
    (source,) = sources([tmp_path / "m.csv"], lambda _: None)
    assert recognises(source) is is_one
