"""Readers are tested in the process of the test; those they run in have tests of their own."""

from __future__ import annotations

import pytest

from ingest.imports.worker_command import HERE_VARIABLE
from ingest.run import open_run
from tests.ingest.query import late_rank


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HERE_VARIABLE, "1")


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The run of tests.ingest.query.late_rank; modules with a run of their own hide it."""
    with open_run(late_rank.build(tmp_path_factory.mktemp("asked") / "run")) as opened:
        yield opened
