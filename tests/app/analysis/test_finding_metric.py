"""Which metric shows a finding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.analysis.finding_metric import OF_KIND, metric_of_finding, metrics_of
from app.views.ranks.scales import METRICS
from diagnosis.detectors import KINDS
from diagnosis.findings import Diagnosis, Evidence, Finding, Verdict

FINDING = Finding(
    kind="data_loader",
    attempt=0,
    severity="urgent",
    confidence="high",
    title="Rank 3 waits for data",
    text="Its batches come late.",
    first_step=4,
    last_step=9,
    ongoing=True,
    evidence=(Evidence("It waits 9 ms.", 9.0, "ms", "rank_phases"),),
    alternatives=(),
    next_step="Look at its disk.",
)


def test_the_kinds_and_the_metrics_exist():
    assert set(OF_KIND) <= set(KINDS)
    assert set(OF_KIND.values()) <= set(METRICS)


@pytest.mark.parametrize(
    ("view", "metric"),
    [
        ((), "data_wait"),
        ((("page", "ranks"), ("metric", "cpu")), "cpu"),
        ((("page", "ranks"), ("metric", "gone")), "data_wait"),
    ],
)
def test_evidence_names_it_else_the_kind_decides(view, metric):
    evidence = (replace(FINDING.evidence[0], view=view),)
    assert metric_of_finding(replace(FINDING, evidence=evidence)) == metric


def test_a_finding_about_clocks_has_none():
    clocks = replace(FINDING, kind="clock_unaligned")
    assert metrics_of(Diagnosis((Verdict("a", (FINDING, clocks)),))) == {FINDING.id: "data_wait"}
