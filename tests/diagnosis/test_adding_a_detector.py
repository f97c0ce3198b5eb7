"""docs/adding-a-detector.md holds: its module and one line are a detector, its tests pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from app.analysis.diagnosis import tables_of
from diagnosis import detectors as registry
from diagnosis.detectors import diagnose
from ingest.run import open_run
from tests.guide_examples import added_line, added_module, example
from tests.runs_builder import T0, two_rank_run

GUIDE = "adding-a-detector.md"


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    """The guide's module."""
    code = example(GUIDE, 'NAME = "memory_leak"')
    with added_module(registry, "memory_leak", code, tmp_path / "detectors"):
        yield import_module("diagnosis.detectors.memory_leak")


def test_the_tests_of_the_guide_pass(module: ModuleType) -> None:
    names: dict[str, Any] = {"pa": pa, "detect": module.detect}
    exec(example(GUIDE, "def test_the_rank_that_grows_is_named"), names)
    names["test_the_rank_that_grows_is_named"]()
    names["test_little_growth_and_few_steps"]()


@pytest.mark.usefixtures("module")
def test_a_run_is_diagnosed_with_it_and_its_query_gives_the_number(tmp_path: Path) -> None:
    built = two_rank_run(tmp_path / "run", num_steps=60)
    for rank in range(2):
        for step in range(60):
            grown = step * 10_000_000 if rank else 0
            built.add("memory", rank, step, ts_ns=T0 + step, rss=500_000_000 + grown)
    built.publish()
    registered = registry.detector_of(ast.literal_eval(added_line(GUIDE, '"memory_leak",')))
    with open_run(built.folder) as run:
        tables = tables_of(run, 0, (0, 59), chosen=[registered])
        (finding,) = diagnose(tables, 0, [registered]).findings
        (evidence,) = finding.evidence
        answer = run.ask(evidence.question, **dict(evidence.params))
    assert [place.rank for place in finding.culprits] == [1]
    assert answer["rss_mb"].to_pylist()[45] == evidence.number == 950.0
