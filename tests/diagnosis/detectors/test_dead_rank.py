"""dead_rank and silent_host on hand-made last signs of life, and on a generated job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis.detectors.dead_rank import detect
from diagnosis.findings import Verdict
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.diagnosis.answer_schema import answer_schema
from tests.diagnosis.stuck import stuck_tables
from tests.diagnosis.work_tables import tables
from trace_hooks.layout import ParallelLayout

_SCHEMA = answer_schema(
    "rank INTEGER, host VARCHAR, last_ns BIGINT, status VARCHAR, error VARCHAR, "
    "last_step BIGINT, is_lost BOOLEAN, lost_text VARCHAR, publish_every_ns BIGINT"
)


def judged(
    *silent: int,
    quiet_s: float = 30.0,
    others: str | None = None,
    looks: tuple[dict[str, Any], ...] = (),
    **changed: Any,
) -> Verdict:
    """Eight ranks on two hosts, in step 21; the `silent` ones stopped `quiet_s` before the others,
    which have the status `others`. `looks`: of watchdogs.
    """
    rows = []
    for rank in range(8):
        row = {"rank": rank, "host": f"node{rank // 4}", "last_ns": 10**18, "last_step": 20}
        row |= {"status": None if rank in silent else others, "is_lost": False, "lost_text": None}
        row["publish_every_ns"] = 0
        if rank in silent:
            row |= {"last_ns": 10**18 - int(quiet_s * 1e9), **changed}
        rows.append(row)
    places = tables(ParallelLayout.from_sizes(dp=8), 1, lambda rank, step: 1.0, ranks_per_host=4)[
        "rank_places"
    ]
    found = {
        "last_signs": pa.Table.from_pylist(rows, _SCHEMA),
        "rank_places": places,
        "rank_looks": stuck_tables.tables([], list(looks))["rank_looks"],
    }
    verdict = detect(found, attempt=0)
    assert verdict is not None
    return verdict


GONE = "rank 3: the process is gone without an end record: killed by SIGKILL"
EXISTS = "rank 3: no heartbeat for 61 s, but its process exists"


@pytest.mark.parametrize(
    ("seen", "signs", "is_dead"),
    [
        ({"process": "R"}, {}, False),
        ({"process": "T"}, {"is_lost": True, "lost_text": EXISTS}, False),
        ({"process": "S"}, {"is_lost": True, "lost_text": GONE}, True),
        ({"process": "gone"}, {}, True),
        ({"process": "R", "ts_ns": 10**18 - 29 * 10**9}, {}, True),
    ],
    ids=["it holds the GIL", "stopped", "killed since", "gone", "its host may be gone"],
)
def test_one_that_its_watchdog_sees_alive_is_not_dead(
    seen: dict[str, Any], signs: dict[str, Any], is_dead: bool
) -> None:
    looks = (stuck_tables.look(3, **seen),)
    assert bool(judged(3, looks=looks, **signs).findings) == is_dead


@pytest.mark.parametrize(("text", "is_dead"), [(GONE, True), (EXISTS, False), (None, False)])
def test_a_killed_rank_whose_last_steps_were_not_written_is_dead(
    text: str | None, is_dead: bool
) -> None:
    """Others go on for less than a step, but what it had not flushed yet is lost."""
    signs = {"last_step": 16, "is_lost": text is not None, "lost_text": text}
    verdict = judged(3, quiet_s=1.5, others="stopped", **signs)
    assert bool(verdict.findings) == is_dead


@pytest.mark.parametrize(("quiet_s", "confidence"), [(11.0, "medium"), (61.0, "high")])
def test_a_rank_that_falls_silent(quiet_s: float, confidence: str) -> None:
    (finding,) = judged(3, quiet_s=quiet_s).findings
    assert (finding.kind, [place.rank for place in finding.culprits]) == ("dead_rank", [3])
    assert (finding.first_step, finding.confidence) == (21, confidence)
    assert finding.evidence[0].number == pytest.approx(quiet_s)
    assert finding.victims == (0, 1, 2, 4, 5, 6, 7)


@pytest.mark.parametrize(("quiet_s", "is_dead"), [(19.0, False), (21.0, True)])
def test_rows_that_wait_for_their_collector_are_no_silence(quiet_s: float, is_dead: bool) -> None:
    verdict = judged(3, quiet_s=quiet_s, publish_every_ns=10 * 10**9)
    assert bool(verdict.findings) == is_dead


def test_the_cause_is_the_error_that_ended_it() -> None:
    (finding,) = judged(3, status="failed", error="CUDA error: uncorrectable ECC").findings
    assert "uncorrectable ECC" in finding.cause


def test_a_host_of_which_all_ranks_fall_silent() -> None:
    (finding,) = judged(0, 1, 2, 3).findings
    assert (finding.kind, finding.hosts) == ("silent_host", ("node0",))
    assert [place.rank for place in finding.culprits] == [0, 1, 2, 3]
    assert finding.text.startswith("All ranks of node0 sent their last heartbeats 30.0 s before")
    assert finding.evidence[0].sentence.startswith("The newest of their heartbeats is 30.0 s older")
    assert finding.cause == "Their processes no longer run, or are cut off."
    assert finding.next_step.startswith("Look at the logs of these processes and of their hosts")


@pytest.mark.parametrize(("others", "is_found"), [("stopped", True), ("finished", False)])
def test_a_rank_that_the_watchdog_missed_when_the_others_were_stopped(
    others: str, is_found: bool
) -> None:
    findings = judged(5, quiet_s=2.4, others=others, is_lost=True).findings
    assert [[place.rank for place in finding.culprits] for finding in findings] == [[5]] * is_found
    if is_found:
        assert findings[0].confidence == "high"
        assert "2.4 s before the others, and its process is gone" in findings[0].text


@pytest.mark.parametrize(("others", "is_found"), [("failed", True), (None, False)])
def test_where_half_of_the_ranks_are_gone_one_that_failed_shows_that_they_died(
    others: str | None, is_found: bool
) -> None:
    """Of two ranks, the one that is killed is half of the job."""
    findings = judged(0, 2, 5, 7, quiet_s=1.1, others=others, is_lost=True).findings
    assert [[p.rank for p in finding.culprits] for finding in findings] == [[0, 2, 5, 7]] * is_found


@pytest.mark.parametrize(
    ("silent", "changed"),
    [
        ((), {}),
        ((3,), {"quiet_s": 3.0, "others": "stopped"}),
        ((3,), {"quiet_s": 9.0}),
        ((3,), {"status": "finished"}),
        (range(8), {}),
    ],
    ids=["all report", "not yet ended", "a moment", "finished before", "nobody left"],
)
def test_no_rank_is_dead(silent: tuple[int, ...], changed: dict[str, Any]) -> None:
    verdict = judged(*silent, **changed)
    assert (verdict.findings, verdict.set_aside) == ((), ())
    assert verdict.checked is not None


def test_a_rank_that_others_leave_behind_lost_its_recorder() -> None:
    verdict = judged(3, last_step=10)
    assert verdict.findings == ()
    assert "since step 10, and the others go on" in verdict.set_aside[0]


def test_the_dead_rank_of_a_generated_job(tmp_path: Path) -> None:
    planted = SyntheticFault.parse("dead_rank=5,from=12")
    job = SyntheticJob(16, pp=2, tp=2, num_steps=20, level="steps", pace=20.0, faults=(planted,))
    generate(job, tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        (finding,) = diagnose_run(run).findings
    assert (finding.kind, [place.rank for place in finding.culprits]) == ("dead_rank", [5])
    assert finding.first_step == 12
