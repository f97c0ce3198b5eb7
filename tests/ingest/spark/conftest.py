"""One session on one cluster for all tests that need Spark; they are skipped without pyspark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ingest.spark.cluster import spark_session
from tests.ingest.spark.local_cluster import SETTINGS, LocalCluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A master with two workers."""
    pytest.importorskip("pyspark", reason="make test-spark has an environment with Spark")
    started = LocalCluster(tmp_path_factory.mktemp("cluster"))
    try:
        started.start_workers(2)
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def spark(cluster: LocalCluster) -> Iterator[Any]:
    """A session there."""
    with spark_session(cluster.url, SETTINGS) as session:
        yield session
