"""A short campaign of fuzz.py, and proof that it would notice: `python -m tests.hostile.fuzz`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile.fuzz import PLANTS, Worker, campaign, mutated

PER_FORMAT = 6


def test_mutated_files_end_as_a_run_or_a_sentence(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"random seed {seed}")
    report = campaign(PER_FORMAT, seed, tmp_path)
    assert report.wrong == [], seed
    assert len(report.num_files) >= 8
    assert sum(report.num_known.values()) * 3 > sum(report.num_files.values()), seed


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


def test_mutations_come_from_the_seed_alone() -> None:
    content = bytes(range(256)) * 4
    made = [mutated(content, [content], random.Random(5)) for _ in range(2)]
    assert made[0] == made[1] != content
