"""source_starved: shares of sources against the plan, on answers made by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from diagnosis.detectors.source_mix import detect
from diagnosis.findings import Verdict
from tests.diagnosis.answer_schema import answer_schema

_SCHEMA = answer_schema(
    "source VARCHAR, samples BIGINT, ratio DOUBLE, planned DOUBLE, spread DOUBLE, batches BIGINT, "
    "all_samples BIGINT, first_step BIGINT, last_step BIGINT"
)
PLAN = {"web": 0.6, "code": 0.3, "books": 0.1}


def judged(
    counts: dict[str, int],
    plan: dict[str, float] | None = PLAN,
    spread: float = 0.0,
    batches: int = 200,
) -> Verdict | None:
    total = sum(counts.values())
    rows = [
        {
            "source": source,
            "samples": samples,
            "ratio": samples / total,
            "planned": plan and plan[source],
            "spread": spread,
            "batches": batches,
            "all_samples": total,
            "first_step": 3,
            "last_step": 90,
        }
        for source, samples in counts.items()
    ]
    return detect({"source_mix": pa.Table.from_pylist(rows, _SCHEMA)}, 0)


def test_a_source_that_comes_too_seldom() -> None:
    verdict = judged({"web": 1_480, "code": 600, "books": 20})
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.kind, finding.culprits) == ("source_starved", ())
    assert finding.title == "Source books comes too seldom"
    assert finding.text == ("books has 1.0 % of 2,100 samples instead of 10.0 %, in steps 3 to 90.")


def test_a_source_that_takes_the_place_of_others_is_told() -> None:
    verdict = judged({"web": 400, "code": 1_500, "books": 200})
    assert verdict is not None
    (finding,) = verdict.findings
    assert finding.title == "Source web comes too seldom"
    assert "while code comes more often" in finding.text


@pytest.mark.parametrize(
    ("counts", "spread"),
    [
        ({"web": 1_260, "code": 630, "books": 210}, 0.0),
        ({"web": 1_290, "code": 630, "books": 180}, 0.0),  # by chance
        ({"web": 1_480, "code": 600, "books": 20}, 0.03),  # whole batches of one source
        ({"web": 1_100, "code": 790, "books": 210}, 0.0),  # code more often, web hardly less
    ],
)
def test_what_chance_explains_is_as_planned(counts: dict[str, int], spread: float) -> None:
    verdict = judged(counts, spread=spread)
    assert verdict is not None
    assert verdict.findings == ()
    assert verdict.checked == "The mixture of 3 sources is as planned."


def test_a_source_that_is_never_drawn() -> None:
    verdict = judged({"web": 1_400, "code": 700, "books": 0})
    assert verdict is not None
    assert verdict.findings[0].title == "Source books comes too seldom"


def test_too_little_to_judge() -> None:
    for verdict in (
        judged({"web": 60, "code": 30, "books": 0}),
        judged({"web": 1_480, "code": 600, "books": 20}, batches=10),
        judged({"web": 1_480, "code": 600, "books": 20}, plan=None),
    ):
        assert verdict is not None
        assert verdict.not_enough
        assert not verdict.findings
    assert judged({}) is None
