"""`rankscope export` of the other formats: what part it takes, what it prints, what it refuses."""

from __future__ import annotations

import csv
import json

import pytest

from app.cli import main
from tests.runs_builder import T0, US, two_rank_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    two_rank_run(tmp_path / "job")
    return str(tmp_path / "job")


def rows(name):
    with open(name, newline="", encoding="utf-8") as file:  # noqa: PTH123
        return list(csv.DictReader(file))


def test_a_trace_is_named_after_the_run_and_its_size_is_printed(run, tmp_path, capsys):
    assert main(["export", run, "--format", "perfetto"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("rankscope-job.json (30 spans, 3 flows, ")
    trace = json.loads((tmp_path / "rankscope-job.json").read_text())
    assert {e["pid"] for e in trace["traceEvents"] if e["ph"] == "X"} == {0, 1}


def test_a_link_selects_the_part(run):
    link = "http://host:1/prefix/run/job/timeline?rank=1&steps=1..2&t=0..150000"
    assert main(["export", run, link, "--format", "csv", "--out", "a.csv"]) == 0
    assert {(row["rank"], row["step"]) for row in rows("a.csv")} == {("1", "1")}
    assert min(int(row["ts_ns"]) for row in rows("a.csv")) == T0 + 100 * US


def test_ranks_and_steps_override_the_link(run):
    arguments = ["--ranks", "0-0", "--steps", "2", "--table", "steps", "--out", "a.csv"]
    assert main(["export", run, "timeline?ranks=1&steps=0", "--format", "csv", *arguments]) == 0
    assert [(row["rank"], row["step"]) for row in rows("a.csv")] == [("0", "2")]


def test_a_trace_can_be_exported_again(run, capsys):
    assert main(["export", run, "--format", "perfetto", "--out", "a.json"]) == 0
    assert main(["export", "a.json", "--format", "csv", "--out", "again.csv"]) == 0
    assert main(["export", run, "--format", "csv", "--out", "first.csv"]) == 0
    assert sorted(map(str, rows("again.csv"))) == sorted(map(str, rows("first.csv")))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--ranks", "x"], "export: --ranks cannot be used: 'x' is not a whole number."),
        (["http://a:8050/run/other/timeline?rank=1"], "the link shows the run other, not job;"),
        (["nonsense"], "export: There is no page 'nonsense'; the pages are overview, timeline,"),
        (["timeline?ranks=x"], "The link's field ranks cannot be used"),
        (["--steps", "3..1"], "ends before it begins"),
        (["--ranks", "7"], "no rank 7"),
        (["timeline?attempt=3"], "no attempt 3"),
        (["--steps", "70"], "step 70"),
        (["--out", "no/where.json"], "cannot be written"),
    ],
)
def test_what_is_not_there_is_one_sentence(run, tmp_path, capsys, arguments, sentence):
    assert main(["export", run, *arguments, "--format", "perfetto"]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["job"]
