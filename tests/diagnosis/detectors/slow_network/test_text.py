"""What a finding on a slow network states: who, how much, since when, and what else it may be."""

from __future__ import annotations

from tests.diagnosis.detectors.slow_network.test_slow_network import PP4_DP4_TP2, judged, since


def test_a_link_names_both_ranks_and_the_comparable_ones() -> None:
    verdict = judged(PP4_DP4_TP2, since(8, 5.0, lambda axis, ranks, step: ranks == (9, 17)))
    (finding,) = verdict.findings
    assert "9" in finding.title
    assert "17" in finding.title
    assert "x as long as comparable ones since step 8: " in finding.text
    others = next(e for e in finding.evidence if "the median of" in e.sentence)
    assert "comparable ones is 0.5 ms" in others.sentence
    assert finding.next_step
    assert finding.alternatives


def test_a_finding_that_is_over_has_its_last_step() -> None:
    def is_slow(axis: str, ranks: tuple[int, ...], step: int) -> bool:
        return ranks == (9, 17) and step < 14

    (finding,) = judged(PP4_DP4_TP2, since(6, 5.0, is_slow)).findings
    assert finding.severity == "past"
    assert "not since then" in finding.text
