"""loader_memory: workers that grow, on answers made by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from diagnosis.detectors.loader_memory import detect
from diagnosis.findings import Finding, Verdict
from tests.diagnosis.answer_schema import answer_schema

_SCHEMA = answer_schema(
    "rank INTEGER, worker INTEGER, pid BIGINT, host VARCHAR, is_shared BOOLEAN, samples BIGINT, "
    "seconds DOUBLE, "
    "first_step BIGINT, last_step BIGINT, begin_mb DOUBLE, middle_mb DOUBLE, end_mb DOUBLE, "
    "free_mb DOUBLE"
)


def worker(rank: int, number: int, *levels_mb: float, **changed: Any) -> dict[str, Any]:
    row = dict(zip(("begin_mb", "middle_mb", "end_mb"), levels_mb, strict=True))
    row |= {"rank": rank, "worker": number, "pid": 70 + number, "host": "node0", "samples": 12}
    row |= {"is_shared": True}
    return row | {"seconds": 180.0, "first_step": 2, "last_step": 60, "free_mb": None} | changed


def judged(*rows: dict[str, Any]) -> Verdict:
    verdict = detect({"loader_memory": pa.Table.from_pylist(list(rows), _SCHEMA)}, 0)
    assert verdict is not None
    return verdict


def found(*rows: dict[str, Any]) -> Finding:
    (finding,) = judged(*rows).findings
    return finding


STEADY = worker(0, 0, 100, 110, 110)


def test_one_worker_grows() -> None:
    finding = found(STEADY, worker(0, 1, 100, 200, 300))
    assert finding.text == "Worker 1 of rank 0 takes 100 MB more each minute."
    assert [place.rank for place in finding.culprits] == [0]
    assert (finding.severity, finding.first_step, finding.last_step) == ("warning", 2, 60)


def test_all_workers_grow_until_the_host_has_no_memory_left() -> None:
    rows = [worker(rank, 0, 100, 200, 300, free_mb=2_000.0) for rank in range(4)]
    finding = found(*rows)
    assert finding.culprits == ()
    assert finding.text == (
        "All 4 workers take 100 MB more each minute. At this rate the memory of a host is used up "
        "in 5 minutes."
    )
    assert finding.severity == "urgent"


def test_what_levels_off_or_is_small_is_no_leak() -> None:
    levels_off = worker(0, 1, 100, 300, 320)
    small = worker(0, 2, 1_000, 1_050, 1_100)
    falls = worker(0, 3, 300, 200, 100)
    assert judged(STEADY, levels_off, small, falls).findings == ()
    assert judged(STEADY).checked == "None of 1 workers of data loaders grows."


def test_one_of_both_kinds_of_memory_is_enough_and_counts_once() -> None:
    resident = worker(0, 1, 300, 300, 300, is_shared=False)
    finding = found(STEADY, resident, worker(0, 1, 100, 200, 300))
    assert finding.text == "Worker 1 of rank 0 takes 100 MB more each minute."
    both = worker(0, 1, 300, 400, 500, is_shared=False)
    assert found(STEADY, both, worker(0, 1, 100, 200, 300)).text == finding.text


def test_too_few_looks() -> None:
    assert judged(worker(0, 1, 100, 200, 300, samples=4)).not_enough
    assert detect({"loader_memory": pa.Table.from_pylist([], _SCHEMA)}, 0) is None
