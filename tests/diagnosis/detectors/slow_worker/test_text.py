"""How sure a slow_worker finding is, and what it states of those who wait."""

from __future__ import annotations

from tests.diagnosis.detectors.slow_worker.test_slow_worker import judged


def test_a_rank_for_which_nobody_waits_most_is_less_certain() -> None:
    finding = judged(caused_ms=lambda rank, step: 99.0 if rank < 5 else 1.0).findings[0]
    assert finding.confidence == "medium"
    late = next(e for e in finding.evidence if e.question == "late_ranks")
    assert "top" not in dict(late.params)  # it is the sixth of ten rows
    hidden = judged(caused_ms=lambda rank, step: 1.0 if rank == 5 else 99.0).findings[0]
    late = next(e for e in hidden.evidence if e.question == "late_ranks")
    assert dict(late.params)["top"] == 16  # else its row would not be there
    assert any("not the one others wait for" in one for one in finding.alternatives)


def test_without_aligned_clocks_the_waiting_is_unknown() -> None:
    verdict = judged()
    finding = verdict.findings[0]
    assert finding.cost is not None  # by how much longer it computes
    assert finding.victims == ()
    link = dict(finding.evidence[0].view)  # the lanes can be looked at all the same
    assert (link["page"], link["ranks"], link["steps"]) == ("timeline", (5, 3, 4, 7, 13), (8, 9))
    assert finding.confidence == "medium"
    assert "wait" not in finding.text
    assert any("clocks are not aligned" in one for one in finding.alternatives)
    assert any("who waits for whom is not known" in one.missing for one in verdict.not_enough)
