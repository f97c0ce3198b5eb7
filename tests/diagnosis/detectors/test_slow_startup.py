"""slow_startup on runs made by hand: over, still starting, and in order."""

from __future__ import annotations

from diagnosis.detectors.slow_startup import QUESTIONS, detect
from ingest.run import open_run
from tests.startup_runs import phases, started_run


def verdict(folder, ranks, **options):
    started_run(folder, ranks, **options)
    with open_run(folder) as run:
        return detect({name: run.ask(name) for name in QUESTIONS}, 0)


WAITS = phases(waits=6)
SLOW = {0: WAITS, 1: phases("restore", 6, what="load (serialization.py) at train.py:8"), 2: WAITS}


def test_the_rank_the_phase_and_the_cost_are_named(tmp_path):
    (finding,) = verdict(tmp_path / "run", SLOW).findings
    assert [place.rank for place in finding.culprits] == [1]
    assert (finding.severity, finding.ongoing) == ("past", False)
    assert finding.title == "Slow start: rank 1, reading a checkpoint"
    assert "7.0 s reading a checkpoint (load (serialization.py) at train.py:8)" in finding.text
    assert "up to 6.0 s earlier" in finding.text


def test_a_job_that_waits_for_a_rank_is_warned_before_its_first_step(tmp_path):
    (finding,) = verdict(tmp_path / "run", SLOW, num_steps=0).findings
    assert (finding.severity, finding.ongoing) == ("warning", True)
    assert "has spent 7.0 s" in finding.text
    assert "The others have waited 6.0 s for that." in finding.text


def test_many_process_groups_are_a_finding_without_ranks(tmp_path):
    ranks = {rank: phases("groups", 20) for rank in range(3)}
    (finding,) = verdict(tmp_path / "run", ranks).findings
    assert (finding.title, finding.culprits) == ("Slow start: making 1 process groups", ())


def test_a_start_in_order_is_said_to_be(tmp_path):
    found = verdict(tmp_path / "run", {rank: phases() for rank in range(3)})
    assert found.findings == ()
    assert found.checked == "The start-up of 3 ranks was compared, phase by phase."


def test_a_run_without_a_recorded_start_is_not_judged(tmp_path):
    assert verdict(tmp_path / "run", {0: [], 1: []}) is None
