"""weights_diverged on tables built by hand: copies that part, ones that never were equal."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from diagnosis.detectors.weights_diverged import detect
from diagnosis.findings import Finding, Verdict
from tests.diagnosis.answer_schema import answer_schema

LOOKS = 12
CHECKSUMS = answer_schema(
    "step BIGINT, stage INTEGER, layer INTEGER, name VARCHAR, shard VARCHAR, place INTEGER, "
    "num_ranks BIGINT, num_values BIGINT, odd_ranks INTEGER[]"
)
PLACES = pa.table(
    {
        "rank": [0, 1, 2, 3],
        "host": ["a", "a", "b", "b"],
        "pp": [0] * 4,
        "dp": [0, 1, 2, 3],
        "cp": [None] * 4,
        "tp": [None] * 4,
    }
)


def part(name: str, differs_from: int = LOOKS, until: int = LOOKS, **more: Any) -> Any:
    """Looks, every tenth step, of one part held by four ranks; rank 2 is the odd one."""
    return [
        {
            "step": 10 * at,
            "stage": 0,
            "layer": 1,
            "name": name,
            "shard": "",
            "place": 0,
            "num_ranks": 4,
            "num_values": 2 if differs_from <= at < until else 1,
            "odd_ranks": [2] if differs_from <= at < until else [],
            **more,
        }
        for at in range(LOOKS)
    ]


def judged(*parts: Any) -> Verdict | None:
    rows = sorted((row for part in parts for row in part), key=lambda row: row["step"])
    checksums = pa.Table.from_pylist(rows, schema=CHECKSUMS)
    return detect({"weight_checksums": checksums, "rank_places": PLACES}, attempt=0)


def found(verdict: Verdict | None) -> Finding:
    assert verdict is not None
    (finding,) = verdict.findings
    return finding


@pytest.mark.parametrize("at", [3, 7, 11])
def test_copies_that_differ_are_reported_with_their_rank(at: int) -> None:
    finding = found(judged(part("layers.0.mlp"), part("layers.1.mlp", at)))
    assert (finding.kind, finding.first_step) == ("silent_corruption", 10 * at)
    assert [(place.rank, place.host) for place in finding.culprits] == [(2, "b")]
    assert (finding.severity, finding.evidence[0].number) == ("urgent", 2)
    assert "layers.1.mlp" in finding.text


def test_where_no_value_is_rarer_no_rank_is_named() -> None:
    rows = [{**row, "num_ranks": 2, "odd_ranks": []} for row in part("layers.1.mlp", 6)]
    assert found(judged(rows)).culprits == ()


def test_the_first_to_part_name_the_place_and_copies_made_equal_again_are_past() -> None:
    finding = found(judged(part("layers.1.mlp", 5, 8), part("head", 6, 8)))
    assert (finding.first_step, finding.last_step, finding.severity) == (50, 70, "past")
    assert "layers.1.mlp" in finding.text
    assert "head" not in finding.text


def test_parts_that_never_were_equal_are_no_copies() -> None:
    verdict = judged(part("experts", 0), part("late", 2), part("layers.0.mlp"))
    assert verdict is not None
    assert verdict.findings == ()
    assert "3 parts" in (verdict.checked or "")


def test_few_samples_are_not_enough_and_without_copies_there_is_no_verdict() -> None:
    verdict = judged(part("layers.0.mlp", 2)[:3])
    assert verdict is not None
    assert "one more is needed" in verdict.not_enough[0].missing
    assert judged() is None
