"""What the data of a run cannot decide, and how its clocks compare."""

from __future__ import annotations

from pathlib import Path

from app.analysis.not_identifiable import clock_of, not_identifiable, whole_answer
from diagnosis.detectors import against_baseline
from diagnosis.findings import Diagnosis, NotEnoughData, Verdict
from ingest.run import open_run
from tests.app.views.timeline.shifted_run import shifted_run
from tests.runs_builder import T0, two_rank_run


def test_only_a_comparison_with_a_good_run_decides_what_shows_against_one() -> None:
    name = against_baseline.NAME
    unseen = not_identifiable(Diagnosis((Verdict("a", checked="All as before."),)))
    assert {one["kind"] for one in unseen} == {*against_baseline.KINDS, "slow_op"}
    assert all("--baseline" in one["remedy"] for one in unseen)
    lacking = Verdict(name, not_enough=(NotEnoughData(name, "no baseline"),))
    assert not_identifiable(Diagnosis((lacking,))) == unseen
    assert not_identifiable(Diagnosis((Verdict(name, checked="As quick."),))) == []


def test_clocks_of_two_hosts_are_aligned_if_both_are_known(tmp_path: Path) -> None:
    with shifted_run(tmp_path / "run") as run:
        clock = clock_of(run)
    assert clock == {
        "aligned": True,
        "kind": "absolute",
        "num_ranks": 2,
        "num_aligned": 2,
        "err_us": 1.0,
        "methods": ["reference", "store_ping_pong"],
    }
    builder = two_rank_run(tmp_path / "unknown")
    builder.hosts = ["h0", "h1"]
    builder.rank_files()
    builder.add("clocks", 1, 0, ts_ns=T0, method="none")
    builder.publish()
    with open_run(builder.folder) as run:
        answer = whole_answer(Diagnosis(()), run)
    assert (answer["clock"]["aligned"], answer["clock"]["num_ranks"]) == (False, 2)
    assert (answer["clock"]["num_aligned"], answer["clock"]["methods"]) == (0, [])
    assert len(answer["not_identifiable"]) == 3
