"""Rows that are lost or there twice, from files to the finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.analysis.diagnosis import tables_of
from diagnosis.detectors import DETECTORS
from diagnosis.detectors.data_gaps import NAME, detect
from diagnosis.findings import Verdict
from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout

STEPS, PER_STEP = 20, 4
ENDED = {"ts_ns": 2 * T0, "status": "finished", "error": None}
Lost = dict[tuple[int, int], int]
"""(rank, step) -> how often each of its collectives is written: 0, 2"""


def recorded(
    folder: Path,
    written: Lost,
    lost_steps: set[tuple[int, int]] = frozenset(),  # type: ignore[assignment]
    late: int = -1,
    step_us: float = 1000.0,
    is_running: bool = False,
) -> Verdict:
    """Four ranks in one group, four collectives a step; rank `late` begins with step 5."""
    run = RunBuilder(folder / "run", 4, ParallelLayout.from_sizes(dp=4))
    run.group(7, [0, 1, 2, 3], "dp")
    for step in range(STEPS):
        for rank in range(4):
            if (rank, step) in lost_steps or (rank == late and step < 5):
                continue
            t = step * step_us
            run.step(rank, step, t, t + step_us)
            run.span(rank, step, "forward", t, t + 500)
            for number in range(PER_STEP):
                for _ in range(written.get((rank, step), 1)):
                    begin = t + 500 + 100 * number
                    seq = PER_STEP * step + number
                    run.collective(rank, step, 7, seq, begin, begin + 50)
    run.rank_files(end=None if is_running else ENDED)
    run.publish()
    own = [detector for detector in DETECTORS if detector.name == NAME]
    with open_run(run.folder) as opened:
        return detect(tables_of(opened, 0, (0, STEPS), chosen=own), 0)


def test_lost_and_doubled_rows(tmp_path: Path) -> None:
    verdict = recorded(tmp_path, {(2, 6): 0, (2, 7): 0, (2, 11): 2})
    (finding,) = verdict.findings
    assert finding.kind == "data_gaps"
    assert [place.rank for place in finding.culprits] == [2]
    assert (finding.first_step, finding.last_step) == (6, 11)
    assert "8 collectives lost, 4 there twice" in finding.text


def test_rows_of_the_first_step(tmp_path: Path) -> None:
    (finding,) = recorded(tmp_path, {(1, 0): 0}).findings
    assert ([place.rank for place in finding.culprits], finding.first_step) == ([1], 0)


def test_whole_steps(tmp_path: Path) -> None:
    (finding,) = recorded(tmp_path, {}, {(3, 8), (3, 9)}).findings
    assert "2 whole steps lost" in finding.text
    assert [place.rank for place in finding.culprits] == [3]


@pytest.mark.parametrize(
    ("written", "late"),
    [({}, -1), ({(rank, 6): 0 for rank in range(4)}, -1), ({}, 2), ({(1, STEPS - 1): 0}, -1)],
    ids=["whole", "nobody recorded it", "one began later", "still on its way"],
)
def test_what_is_no_gap(tmp_path: Path, written: Lost, late: int) -> None:
    verdict = recorded(tmp_path, written, late=late)
    assert verdict.findings == ()
    assert verdict.checked is not None


def test_what_a_running_rank_lacks_may_still_come_for_fifteen_seconds(tmp_path: Path) -> None:
    """Hooks read what only the flight recorder saw up to ten seconds after the rest."""
    missing = {(1, step): 0 for step in range(3, 12)}
    running = recorded(tmp_path / "a", missing, step_us=1e6, is_running=True)
    (finding,) = running.findings
    assert (finding.first_step, finding.last_step) == (3, 4)
    (finding,) = recorded(tmp_path / "b", missing, step_us=1e6).findings
    assert (finding.first_step, finding.last_step) == (3, 11)
