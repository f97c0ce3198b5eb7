"""The options --engine, --master and --spark-conf of verbs that index."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from ingest.errors import UserError
from ingest.index.engine import Engine

ENGINES = ("duckdb", "spark")


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the three options."""
    what = "what computes the rollups and merges files (default: %(default)s, in this process)"
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help=what)
    what = "address of a Spark cluster: spark://HOST:PORT, yarn, k8s://..., or local[2]"
    parser.add_argument("--master", metavar="URL", help=what)
    what = "a setting of Spark (several allowed)"
    parser.add_argument("--spark-conf", action="append", default=[], metavar="KEY=VALUE", help=what)


@contextmanager
def engine_of(arguments: argparse.Namespace) -> Iterator[Engine]:
    """The requested engine; raises UserError."""
    if arguments.engine == ENGINES[0]:
        if arguments.master or arguments.spark_conf:
            raise UserError("--master and --spark-conf belong to --engine spark; add it")
        yield Engine()
        return
    settings = [text.partition("=") for text in arguments.spark_conf]
    for key, is_given, _ in settings:
        if not key or not is_given:
            raise UserError(f"--spark-conf {key!r} is no setting; give KEY=VALUE")
    from ingest.spark.cluster import spark_session
    from ingest.spark.engine import SparkEngine

    with spark_session(arguments.master, {key: value for key, _, value in settings}) as spark:
        yield SparkEngine(spark)
