"""The options --engine, --master and --spark-conf of verbs that index."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ingest.errors import UserError
from ingest.index.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = ("duckdb", "spark")


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the three options."""
    what = "what does the work: DuckDB in this process, or a Spark cluster (default: %(default)s)"
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help=what)
    what = "address of a Spark cluster: spark://HOST:PORT, yarn, k8s://..., or local[2]"
    parser.add_argument("--master", metavar="URL", help=what)
    what = "a setting of Spark (several allowed)"
    parser.add_argument("--spark-conf", action="append", default=[], metavar="KEY=VALUE", help=what)


@contextmanager
def engine_of(arguments: argparse.Namespace) -> Iterator[Engine]:
    """The requested engine; raises UserError."""
    with session_of(arguments) as spark:
        if spark is None:
            yield Engine()
        else:
            from ingest.spark.engine import SparkEngine

            yield SparkEngine(spark)


@contextmanager
def session_of(arguments: argparse.Namespace) -> Iterator[SparkSession | None]:
    """A session of Spark where that is the requested engine; raises UserError."""
    if arguments.engine != "spark":
        if arguments.master or arguments.spark_conf:
            raise UserError("--master and --spark-conf belong to --engine spark; add it")
        yield None
        return
    settings = [text.partition("=") for text in arguments.spark_conf]
    for key, is_given, _ in settings:
        if not key or not is_given:
            raise UserError(f"--spark-conf {key!r} is no setting; give KEY=VALUE")
    from ingest.spark.cluster import spark_session

    with spark_session(arguments.master, {key: value for key, _, value in settings}) as spark:
        yield spark
