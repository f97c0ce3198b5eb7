"""Processes of ranks that were seen stopped, on tables built by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from diagnosis.detectors.stopped_process import detect
from diagnosis.findings import Finding, Verdict
from tests.diagnosis.answer_schema import answer_schema

LOOKS = answer_schema("rank INTEGER,host VARCHAR,step BIGINT,second DOUBLE,held_s DOUBLE")
Look = tuple[int, int, float, float | None]
"""rank, step, second, held_s"""


def judged(
    *looks: Look, num_ranks: int = 8, newest: int = 100, has_hosts: bool = True
) -> Verdict | None:
    rows = [
        {
            "rank": rank,
            "host": f"node{rank // 2}" if has_hosts else None,
            "step": step,
            "second": at,
            "held_s": held,
        }
        for rank, step, at, held in sorted(looks)
    ]
    steps = pa.table({"step": [0, newest], "num_ranks": [num_ranks, num_ranks]})
    return detect({"stopped_ranks": pa.Table.from_pylist(rows, LOOKS), "steps": steps}, 0)


def found(verdict: Verdict | None) -> list[Finding]:
    assert verdict is not None
    return list(verdict.findings)


def test_a_rank_that_is_stopped_again_and_again() -> None:
    (finding,) = found(judged((5, 30, 10.0, 2.0), (5, 33, 16.0, 4.0), (5, 40, 24.0, 2.0)))
    assert (finding.kind, finding.culprits[0].rank, finding.culprits[0].host) == (
        "stopped_process", 5, "node2",
    )  # fmt: skip
    assert (finding.first_step, finding.last_step, finding.severity) == (30, 40, "past")
    assert "stopped for about 8 of 16 s from step 30 to step 40" in finding.text
    assert finding.evidence[0].number == 3.0


def test_no_host_is_known() -> None:
    (finding,) = found(judged((5, 99, 10.0, 30.0), has_hosts=False))
    assert "The process of rank 5 has been stopped" in finding.text
    assert finding.next_step.startswith("On its host: ")


def test_one_long_stop_that_goes_on() -> None:
    (finding,) = found(judged((5, 99, 10.0, 30.0)))
    assert finding.ongoing
    assert finding.title == "Rank 5 is stopped for 30 s"
    assert finding.evidence[0].sentence == "The process of rank 5 was seen stopped once, for 30 s."


@pytest.mark.parametrize("looks", [[(5, 30, 10.0, 2.0)], [(5, 30, 10.0, None)]])
def test_a_moment_is_nothing(looks: list[Look]) -> None:
    verdict = judged(*looks)
    assert verdict is not None
    assert not verdict.findings
    assert verdict.checked == "No rank alone was stopped for longer than a moment."


def test_looks_far_apart_are_no_episode() -> None:
    assert found(judged((5, 30, 10.0, 2.0), (5, 90, 200.0, 2.0))) == []


def test_two_ranks_at_different_times() -> None:
    first, second = (1, 20, 10.0, 9.0), (5, 90, 200.0, 9.0)
    ranks = [finding.culprits[0].rank for finding in found(judged(first, second))]
    assert ranks == [1, 5]


def test_a_job_that_was_suspended_names_nobody() -> None:
    verdict = judged(*((rank, 30, 10.0, 9.0) for rank in range(8)))
    assert verdict is not None
    assert not verdict.findings
    assert verdict.set_aside == ("8 ranks were stopped in step 30: the job was suspended.",)


def test_nobody_looked() -> None:
    assert judged() is None
