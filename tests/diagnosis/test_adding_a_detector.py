"""docs/adding-a-detector.md holds: its module and one line are a detector, its tests pass."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis import detectors as registry
from ingest.run import open_run
from tests.guide_examples import added_line, added_module, example
from tests.runs_builder import T0, two_rank_run

GUIDE = "adding-a-detector.md"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The guide's module, and its line in detectors()."""
    code = example(GUIDE, 'NAME = "memory_leak"')
    line = added_line(GUIDE, "_of(memory_leak),")
    with added_module(registry, "memory_leak", code, tmp_path / "detectors"):
        added = import_module("diagnosis.detectors.memory_leak")
        known = (*registry.detectors(), eval(line, vars(registry) | {"memory_leak": added}))
        monkeypatch.setattr(registry, "detectors", lambda: known)
        monkeypatch.setattr("app.analysis.diagnosis.detectors", lambda: known)
        yield added


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
    with open_run(built.folder) as run:
        found = [finding for finding in diagnose_run(run).findings if finding.kind == "memory_leak"]
        (finding,) = found
        (evidence,) = finding.evidence
        answer = run.ask(evidence.question, **dict(evidence.params))
    assert [place.rank for place in finding.culprits] == [1]
    assert answer["rss_mb"].to_pylist()[45] == evidence.number == 950.0
