"""A session on a Spark cluster, and what goes wrong there as one sentence."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.errors import UserError
from ingest.index.engine import EngineFailure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.speculation": "false",  # a task that writes a merged file runs once at a time
    "spark.sql.ansi.enabled": "true",  # as in DuckDB: what does not fit is an error, not NULL
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",  # a page that whoever reaches this machine can open
    "spark.ui.showConsoleProgress": "false",
}
_LOOPBACK = re.compile(r"local(\[.*\])?|spark://(127\.0\.0\.1|localhost)(:\d+)?")
_ON_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_GLOB = re.compile(r"([*?{}\[\]\\])")
_LONGEST = 300


@contextmanager
def spark_session(master: str | None, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session on the cluster of that master; None: as the configuration of Spark has it.

    `settings` win over all others. Raises UserError where Spark or Java is missing, or no master
    answers.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UserError(
            f"Spark cannot be used here ({error}); install it with: pip install 'rankscope[spark]'"
        ) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    on_loopback = master is not None and _LOOPBACK.fullmatch(master) is not None
    if on_loopback:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="rankscope-spark-") as folder:
        warehouse = {"spark.sql.warehouse.dir": location(Path(folder))}  # else the work folder
        chosen = {**_SETTINGS, **warehouse, **(_ON_LOOPBACK if on_loopback else {}), **settings}
        builder = SparkSession.builder.appName("rankscope index").config(map=chosen)
        spark = _started(builder if master is None else builder.master(master))
        try:
            yield spark
        finally:
            spark.stop()


def _started(builder: SparkSession.Builder) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise UserError(
            f"no session of Spark could be started ({first_line(error)}); Spark 4 needs Java 17 "
            "or later (JAVA_HOME, or java in PATH) and a master that answers"
        ) from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def failures() -> Iterator[None]:
    """Errors of Spark as EngineFailure, of files that it cannot read as OSError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        kind = OSError if "FAILED_READ_FILE" in str(error) else EngineFailure
        raise kind(f"Spark: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """What an error of Spark says before its stacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:_LONGEST]


def location(path: Path) -> str:
    """Where Spark writes: a path on the disk that all machines share, whatever its default is."""
    return f"file://{path.resolve()}"


def readable(path: Path) -> str:
    """The same for reading, where Spark takes some characters for patterns."""
    return _GLOB.sub(r"\\\1", location(path))


def read_files(spark: SparkSession, table: str, files: Sequence[str]) -> DataFrame:
    """Rows of data files of a table; columns that older files lack are NULL."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from trace_hooks.schema import TABLES

    schema = from_arrow_schema(TABLES[table].schema)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(readable(Path(file)) for file in files))
