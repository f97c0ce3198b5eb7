"""What the benchmark of first causes counts as right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.first_cause import Case, Outcome, f1, judge, report
from diagnosis.findings import Evidence, Finding, Place
from ingest.imports.worker_command import HERE_VARIABLE
from sample_traces.logs.truth import UNKNOWN, Truth

TRUTH = Truth("memory", ("out of memory",), ("fix_code",), (3,), ("n0",), "n0")
FOUND = Finding(
    kind="first_error", attempt=0, severity="urgent", confidence="high", title="Rank 3 failed",
    text="It began there.", culprits=(Place(3, "n0"),), first_step=0, last_step=0, ongoing=True,
    evidence=(Evidence("log:7: CUDA out of memory", 7.0, "line", "labelled_log_lines"),),
    alternatives=(), next_step="Use less.", cause="CUDA out of memory", advice="fix_code",
)  # fmt: skip


def outcome(truth=TRUTH, reported=FOUND, **changed):
    reported = replace(reported, **changed) if reported else None
    return Outcome(Case("cuda_oom", 0, 1), "slurm", truth, reported)


def test_right_needs_line_advice_and_nobody_wrong():
    assert outcome().is_right
    assert not outcome(advice="restart").is_right
    assert not outcome(culprits=(Place(4, "n0"),)).is_right
    assert outcome(culprits=()).is_right, "silence on the rank is no error"
    assert not outcome(culprits=()).is_rank_right
    assert not outcome(truth=replace(TRUTH, says=("Xid",))).is_right
    assert not outcome(reported=None).is_right


def test_nothing_is_right_where_nothing_shows():
    assert outcome(truth=UNKNOWN, reported=None).is_right
    assert not outcome(truth=UNKNOWN).is_right
    assert outcome(truth=UNKNOWN).names_wrongly


def test_node():
    assert outcome().is_node_right
    assert not outcome(hosts=("n1",)).is_node_right


def test_f1_and_report():
    outcomes = [outcome(), outcome(reported=None), outcome(truth=UNKNOWN, reported=None)]
    assert f1(outcomes) == 2 * 1 / (1 + 2)
    text = report(outcomes)
    assert "| first cause, F1 | 0.667 |" in text
    assert "Not right: 1." in text
    assert "- cuda_oom-0 (slurm): reported nothing; right were 'out of memory'" in text


@pytest.mark.long
def test_a_job_is_judged(tmp_path, monkeypatch):
    monkeypatch.setenv(HERE_VARIABLE, "1")
    judged = judge(Case("exception_all", 1, 5), tmp_path)
    assert judged.is_right
    assert (tmp_path / "truth.json").exists()
