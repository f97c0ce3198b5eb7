"""Ranks of which nothing is known: they are not blamed, and neither is who may wait for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from diagnosis.detectors.stuck import detect
from diagnosis.findings import Verdict
from tests.diagnosis.stuck.stuck_tables import SINCE_NS, entered, tables

UNNUMBERED = 1 << 40


def without(missing: set[int], rows: list[dict[str, Any]], **given: Any) -> dict[str, pa.Table]:
    """Dumps of all ranks but those that are missing."""
    answers = tables([row for row in rows if row["rank"] not in missing], [], **given)
    places = answers["rank_places"]
    kept = [rank not in missing for rank in places["rank"].to_pylist()]
    return answers | {"rank_places": places.filter(pa.array(kept))}


def verdict_on(answers: dict[str, pa.Table]) -> tuple[list[int], str]:
    verdict = detect(answers, 0)
    assert isinstance(verdict, Verdict)
    named = [place.rank for finding in verdict.findings for place in finding.culprits]
    return named, verdict.checked or ""


BEHIND = [*(entered(rank, 31) for rank in (0, 1, 3)), entered(2, 30)]


def test_a_rank_without_a_dump_is_not_blamed() -> None:
    assert verdict_on(tables(BEHIND, [])) == ([2], "")
    named, checked = verdict_on(without({2}, BEHIND))
    assert named == []
    assert checked == (
        "Ranks 0, 1 and 3 wait in all_reduce 31 of group g7 (dp); nothing is known of rank 2. "
        "Nobody is named: what rank 2 recorded is missing."
    )


def test_who_is_behind_is_named_although_another_dump_is_missing() -> None:
    """Members that stand at 31 have completed 30, for which all have come."""
    assert verdict_on(without({3}, BEHIND)) == ([2], "")
    last = [*(entered(rank, 31) for rank in (0, 1)), entered(2, 30, op="broadcast")]
    named, checked = verdict_on(without({3}, last))
    assert named == []
    assert checked == (
        "Ranks 0 and 1 wait for rank 2 in all_reduce 31 of group g7 (dp). "
        "Nobody is named: what rank 3 recorded is missing."
    )


def test_who_may_wait_for_a_missing_rank_is_no_root() -> None:
    """Rank 1 is late in group 8 because it stands in group 7, where rank 0 may be missing."""
    rows = [entered(1, 31), entered(2, 5, group_id=8), entered(1, 4, "completed", group_id=8)]
    groups = {7: [0, 1], 8: [1, 2]}
    assert verdict_on(without({0}, rows, groups=groups))[0] == []
    behind = entered(0, 30, "completed")
    assert verdict_on(without(set(), [*rows, behind], groups=groups))[0] == [0]


@pytest.mark.parametrize(("num_sent", "named"), [(0, []), (1, [2])])
def test_a_message_that_the_other_side_counts_differently_excuses(
    num_sent: int, named: list[int]
) -> None:
    """Rank 2 receives from rank 9, whose ring does not say whether it has sent."""
    early = {"enqueue_ns": SINCE_NS - 1, "group_id": 8}
    received = entered(2, UNNUMBERED + 3, op="recv", peer=9, **early)
    sent = [entered(9, UNNUMBERED + 8, op="send", peer=2, **early)] * num_sent
    done = entered(2, 30, "completed")
    rows = [*(entered(rank, 31) for rank in (0, 1, 3)), done, received, *sent]
    groups = {7: [0, 1, 2, 3], 8: [2, 9]}
    assert verdict_on(without(set(), rows, groups=groups))[0] == named


@pytest.mark.parametrize(
    ("missing", "named", "confidence"),
    [(set(), [2], "high"), ({0}, [2], "high"), ({0, 1}, [], "medium")],
)
def test_a_majority_counts_only_where_missing_members_cannot_turn_it(
    missing: set[int], named: list[int], confidence: str
) -> None:
    rows = [*(entered(rank, 31) for rank in (0, 1, 3)), entered(2, 31, op="broadcast")]
    verdict = detect(without(missing, rows), 0)
    assert verdict is not None
    (finding,) = verdict.findings
    assert finding.kind == "mismatched_op"
    assert [place.rank for place in finding.culprits] == named
    assert finding.confidence == confidence
