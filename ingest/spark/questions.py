"""Saved queries answered by Spark, from the rollups of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from ingest.errors import UserError
from ingest.run import Run
from ingest.spark.cluster import failures
from ingest.spark.dialect import SHARED_QUESTIONS, to_spark
from ingest.spark.index_views import answers_folder, show_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLES = (
    "ranks",
    "group_members",
    "step_rollup",
    "kind_rollup",
    "collective_rollup",
    "newest_steps",
)


@contextmanager
def _told() -> Iterator[None]:
    try:
        with failures():
            yield
    except OSError as error:  # EngineFailure is one
        raise UserError(f"{error}; see the cluster's logs, or query without it") from error


@contextmanager
def spark_answers(spark: SparkSession, run: Run) -> Iterator[Callable[..., pa.Table]]:
    """A function of the name of a saved query and its parameters that gives Spark's answer.

    All machines must see the folder of the run's index under one path. The function raises
    UserError for a query that is not among SHARED_QUESTIONS, and where the cluster fails; so does
    entering where the index folder cannot be written.
    """
    tables = ((name, run.execute(f"FROM {name}", {})) for name in _TABLES)

    def answer(name: str, **params: object) -> pa.Table:
        if name not in SHARED_QUESTIONS:
            known = ", ".join(SHARED_QUESTIONS)
            raise UserError(f"Spark does not answer {name!r}; it answers {known}")
        text, values = run.prepared(name, **params)
        with _told():
            return spark.sql(to_spark(text), values).toArrow()

    with answers_folder(run.snapshot.path.parent) as folder:
        with _told():
            show_tables(spark, tables, folder, of_questions=True)
        yield answer
