"""Runs the heavy parts of an indexing pass on a Spark cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from ingest.index.engine import Engine
from ingest.index.merging import Check, Merge, publish_merged
from ingest.query.manifest import Connection
from ingest.spark.cluster import failures
from ingest.spark.rollup_pass import SparkRollupPass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEngine(Engine):
    """Rollups by Spark SQL, merges as tasks of the cluster, on files that its machines share."""

    merges_at_once = 4096

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def update_rollups(
        self,
        connection: Connection,
        folder: Path,
        index_folder: Path,
        relative: bool,
        touched: Mapping[int, tuple[int, int]],
    ) -> None:
        """As Engine has it; raises EngineFailure (an OSError) where the cluster fails."""
        with failures():
            SparkRollupPass(
                self._spark, connection, folder.resolve(), index_folder.resolve(), relative
            ).update(touched)

    def merge(self, merges: Sequence[Merge], require_owner: Check) -> list[Exception | None]:
        """As Engine has it; each merge is a task, repeated where its executor dies.

        A task writes a hidden file, which gets its name here: so nothing is published once the
        owner of the index has died, whatever tasks of it live on.
        """
        if not merges:
            return []
        context = self._spark.sparkContext
        with failures():
            tasks = context.parallelize(list(map(_absolute, merges)), len(merges))
            found = tasks.map(_written).collect()
        return [
            _published(merge, require_owner, *one) for merge, one in zip(merges, found, strict=True)
        ]


def _absolute(merge: Merge) -> Merge:
    paths = [path.resolve() for path in merge.paths]
    return replace(merge, paths=paths, merged=merge.merged.resolve())


def _written(merge: Merge) -> tuple[Path, str | None]:
    """The hidden file of a merge, and why it could not be written."""
    hidden = merge.merged.with_name(f".{merge.merged.name}.{uuid4().hex}.tmp")
    try:
        publish_merged(merge.table, merge.paths, hidden, merge.inputs)
    except (pa.ArrowException, OSError) as error:
        return hidden, str(error)
    return hidden, None


def _published(
    merge: Merge, require_owner: Check, hidden: Path, problem: str | None
) -> Exception | None:
    if problem is not None:
        return OSError(problem)
    require_owner()
    try:
        hidden.replace(merge.merged)
    except OSError as error:
        return error
    return None
