"""A short campaign of `python -m tests.hostile.fuzz`, and proof that it would notice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile.fuzz import pool
from tests.hostile.fuzz.campaign import Worker, campaign
from tests.hostile.fuzz.mutations import members_of, mutated
from tests.hostile.fuzz.pool import PoolReport, guarded, judge
from tests.hostile.fuzz.seeds import seeds
from tests.hostile.fuzz.worker import ESCAPED, PLANTS

PER_FORMAT = 6


def test_mutated_files_end_as_a_run_or_a_sentence(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"random seed {seed}")
    report = campaign(PER_FORMAT, seed, tmp_path)
    assert report.wrong == [], seed
    assert len(report.tallies) >= 8
    known = sum(tally.num_known for tally in report.tallies.values())
    assert known * 3 > sum(tally.num_files for tally in report.tallies.values()), seed


@pytest.mark.sampled
@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_planted_is_caught(tmp_path: Path, plant: str) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    path = folder / "planted"
    path.write_bytes(PLANTS[plant])
    good = folder / "rank-0.json"
    good.write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": 1}]}')
    one = Worker(folder)
    try:
        assert one.run(good)["end"] == "run"
        one.limit_s = 1.0 if plant == "hang" else one.limit_s
        assert one.run(path)["end"].startswith(plant)
        one.limit_s = 10.0
        assert one.run(good)["end"] == "run"  # a new worker goes on
    finally:
        one.close()
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.long
@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_planted_is_caught_by_the_processes_of_an_import(
    tmp_path: Path, plant: str
) -> None:
    """It costs its own file: the others are read."""
    files = [tmp_path / "in" / str(number) / "rank.json" for number in range(4)]
    for path in files:
        path.parent.mkdir(parents=True)
        path.write_text(
            '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": 1}]}'
        )
    files[1].write_bytes(PLANTS[plant])
    report = PoolReport(0)
    with guarded(tmp_path, limit_s=2):
        judge(files, tmp_path / "import", report)
    reasons = {"crash": "signal 6", "hang": "stopped after 2 s", "escape": f"status {ESCAPED}"}
    [wrong] = report.wrong
    assert wrong.startswith(f"{files[1]}: ")
    assert reasons[plant] in wrong
    assert report.num_problems == 1
    assert not list(tmp_path.parent.rglob("escaped"))


@pytest.mark.long
def test_mutated_files_end_no_process_of_an_import(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    report = pool.campaign(PER_FORMAT, seed, tmp_path, only="a")
    assert report.wrong == [], seed
    assert sum(report.num_files.values()) >= 6 * PER_FORMAT


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "rank-1.json.gz", "a.zip"])
def test_members_of_archives_are_changed_and_their_checksums_right(name: str) -> None:
    content = dict(seeds()["archives"])[name]
    whole = 0
    for seed in range(60):
        made = mutated(content, [content], random.Random(seed))
        assert made != content
        whole += bool(members_of(made))  # none of those that were changed as bytes
    assert whole > 30


def test_mutations_come_from_the_seed_alone() -> None:
    content = bytes(range(256)) * 4
    made = [mutated(content, [content], random.Random(5)) for _ in range(2)]
    assert made[0] == made[1] != content
