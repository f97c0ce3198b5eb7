"""Runs and a diagnosis for the tests of all components."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.analysis.diagnosis import diagnosis_of
from app.runs.hub import Hub
from diagnosis.findings import Diagnosis
from tests.app.recorded_runs import hub_of_recorded_runs


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with hub_of_recorded_runs(tmp_path_factory.mktemp("runs")) as hub:
        yield hub


@pytest.fixture(scope="module")
def diagnosis(hub: Hub) -> Diagnosis:
    return diagnosis_of(hub, "slow_rank")
