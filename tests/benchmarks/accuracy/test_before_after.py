"""Two versions of the detectors are compared on the jobs that both have, by the newer labels."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.accuracy.before_after import pairs, table
from benchmarks.accuracy.cases import Case
from benchmarks.accuracy.judge import Outcome
from tests.benchmarks.accuracy.test_score import finding_of, planted

LOUD = Case("phase_log", "late_in_data", "loud", 0, 1)
FALSE = Outcome(LOUD, labels=(planted(4),), findings=[finding_of("slow_worker", 4)])
RIGHT = Outcome(LOUD, labels=(planted(3),), findings=[finding_of("slow_worker", 3)])


def test_what_each_version_finds_by_the_newer_labels() -> None:
    only_old = replace(FALSE, case=replace(LOUD, number=1))
    both = pairs([FALSE, only_old], [RIGHT])
    assert len(both) == 1
    before, after = (row.split(" | ") for row in table(both)[2:4])
    assert before[2:5] == ["before", "1 of 1 (21-100 %)", "0"]
    assert after[2:5] == ["after", "1 of 1 (21-100 %)", "1"]
    assert (before[5], after[5]) == ("1", "0")
    assert [row.split(" | ")[0] for row in table(both)[4:]] == ["| **all**", "| **all**"]
