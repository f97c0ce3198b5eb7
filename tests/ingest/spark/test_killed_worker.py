"""SIGKILL of a worker and its executor in the middle of a pass: the index is what it would be."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from ingest.index import compaction
from ingest.index.engine import Engine
from ingest.spark.engine import SparkEngine
from tests.ingest.spark.compared_runs import indexed, unusual
from tests.ingest.spark.local_cluster import LocalCluster
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

ROUNDS = int(os.environ.get("KILL_ROUNDS", "1"))
MOST_STAGES = 12
"""A pass of these runs has some more."""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What DuckDB makes of the run."""
    return indexed(unusual(tmp_path_factory.mktemp("expected") / "run", 8), Engine())


class Stages:
    """Numbers of the stages that have been seen at work since it was made."""

    def __init__(self, spark: Any) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._seen: set[int] = set()

    def has_reached(self, number: int) -> bool:
        """Whether the stage of that number has a task at work, or one after it."""
        for stage in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(stage)
            if info is not None and info.numActiveTasks > 0:
                self._seen.add(stage)
        return len(self._seen) >= number


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_killed_worker_changes_no_row(
    seed: int,
    spark: Any,
    cluster: LocalCluster,
    expected: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction, "CLOSED_S", -1.0)
    folder, found = unusual(tmp_path / "run", 8), []
    indexing = threading.Thread(target=lambda: found.append(indexed(folder, SparkEngine(spark))))
    number, stages = random.Random(seed).randint(1, MOST_STAGES), Stages(spark)
    indexing.start()
    wait_until(lambda: stages.has_reached(number) or not indexing.is_alive(), within_s=900)
    assert indexing.is_alive()
    cluster.kill_worker()
    cluster.start_workers(1)
    indexing.join()
    assert found == [expected]
