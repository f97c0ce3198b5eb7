"""loader_standby: standby loaders that fall behind, on answers made by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from diagnosis.detectors.loader_standby import detect
from diagnosis.findings import Finding, Verdict
from tests.diagnosis.answer_schema import answer_schema

_SCHEMA = answer_schema(
    "rank INTEGER, reports BIGINT, first_step BIGINT, last_step BIGINT, begin_samples DOUBLE, "
    "middle_samples DOUBLE, end_samples DOUBLE, begin_age_s DOUBLE, end_age_s DOUBLE, "
    "newest_samples BIGINT, newest_age_s DOUBLE"
)


def standby(rank: int, begin: float | None, end: float | None, **changed: Any) -> dict[str, Any]:
    row = {"rank": rank, "reports": 60, "first_step": 0, "last_step": 59}
    row |= {"begin_samples": begin, "middle_samples": begin, "end_samples": end}
    row |= {"begin_age_s": 10.0, "end_age_s": 10.0, "newest_samples": end, "newest_age_s": 10.0}
    return row | changed


def judged(*rows: dict[str, Any]) -> Verdict:
    verdict = detect({"loader_standby": pa.Table.from_pylist(list(rows), _SCHEMA)}, 0)
    assert verdict is not None
    return verdict


def found(*rows: dict[str, Any]) -> Finding:
    (finding,) = judged(*rows).findings
    return finding


STEADY = [standby(rank, 8, 9) for rank in range(3)]


def test_one_falls_behind() -> None:
    finding = found(*STEADY, standby(3, 8, 420))
    assert finding.title == "The standby loader of rank 3 falls behind"
    assert finding.text.startswith("That of rank 3 is 420 samples behind: if it took over")
    assert [place.rank for place in finding.culprits] == [3]
    assert (finding.first_step, finding.last_step) == (0, 59)


def test_snapshots_that_are_no_longer_taken() -> None:
    finding = found(*STEADY, standby(3, 8, 9, end_age_s=300.0, newest_age_s=350.0))
    assert finding.title == "The standby loader of rank 3 has an old snapshot"
    assert "is 350 s old" in finding.text


def test_one_that_has_caught_up() -> None:
    finding = found(*STEADY, standby(3, 8, 420, newest_samples=5))
    assert (finding.severity, finding.text) == ("past", "That of rank 3 has caught up since.")


def test_all_fall_behind() -> None:
    finding = found(*[standby(rank, 8, 400 + rank) for rank in range(8)])
    assert len(finding.culprits) == 8
    assert finding.title == "The standby loader of ranks 0, 1, 2, 3, 4 and 3 more falls behind"


def test_what_is_small_or_as_on_the_other_ranks_is_silent() -> None:
    few = standby(3, 1, 12)
    falls = standby(4, 420, 8)
    unknown = standby(5, None, None)
    assert judged(*STEADY, few, falls, unknown).findings == ()
    assert judged(*STEADY).checked == "No standby loader of 3 falls behind."


def test_too_few_reports() -> None:
    assert judged(standby(3, 8, 420, reports=5)).not_enough
    assert detect({"loader_standby": pa.Table.from_pylist([], _SCHEMA)}, 0) is None
