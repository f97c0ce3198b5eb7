"""The two recorded runs: small, without traces of the machine they come from, and labelled."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.run import Run, open_run
from sample_traces.jobs.faults import Fault
from sample_traces.jobs.record import HOST, NUM_STEPS, RECORDED, RUNS

NAMES = sorted(RUNS)

LOCAL_PATH = re.compile(r"(^|[\s'\"])(/\w|[A-Z]:\\)|site-packages")


@pytest.fixture(params=NAMES)
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    shutil.copytree(
        RECORDED / request.param, tmp_path / "run", ignore=shutil.ignore_patterns("index")
    )
    return open_run(tmp_path / "run")


def files(name: str) -> list[Path]:
    return [
        path
        for path in (RECORDED / name).rglob("*")
        if path.is_file() and "index" not in path.parts
    ]


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for name in NAMES for path in files(name)) < 3_000_000
    assert max(len(files(name)) for name in NAMES) < 60


def texts(path: Path) -> set[str]:
    """Every string in a file."""
    if path.suffix == ".json":
        return set(re.findall(r'"((?:[^"\\]|\\.)*)"', path.read_text(encoding="utf-8")))
    table = pq.read_table(path)
    found = {value.decode() for value in (table.schema.metadata or {}).values()}
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            found |= {text for text in column.cast(pa.string()).unique().to_pylist() if text}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_they_say_nothing_about_the_machine(name: str) -> None:
    everything = set().union(*(texts(path) for path in files(name)))
    assert "AdamW.step" in everything
    assert not [
        text for text in everything if re.search(r"(^|\s)/\w|\\\\|/home|site-packages", text)
    ]
    hosts = {json.loads(p.read_text())["host"] for p in (RECORDED / name / "ranks").iterdir()}
    assert hosts == {HOST}


def test_they_are_complete(sample: Run) -> None:
    steps = sample.ask("steps").to_pylist()
    assert [step["step"] for step in steps] == list(range(NUM_STEPS))
    assert {step["num_finished"] for step in steps} == {8}
    assert sample.problems == []
    assert min(row["covered_ratio"] for row in sample.ask("coverage").to_pylist()) >= 0.95
    assert all(row["err_us"] is not None for row in sample.ask("clock_error").to_pylist())


def test_the_slow_rank_shows_and_the_healthy_run_has_none(sample: Run) -> None:
    planted = sample.info["truth"]["faults"]
    assert planted == [Fault.parse(text).to_json() for text in RUNS[sample.info["run"]]]
    first = planted[0]["from"] if planted else 0
    [worst] = sample.ask("slowest_ranks", step_min=first, top=1).to_pylist()
    if planted:
        assert worst["rank"] == 5
        assert worst["beyond_noise"]
        assert 1.4 < worst["slowdown"] < 1.9
        marks = sample.ask("marks").to_pylist()
        assert [row["rank"] for row in marks if row["kind"] == "fault"] == [5]
    else:
        assert worst["slowdown"] < 1.15
