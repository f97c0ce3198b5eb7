"""Tables of an index as views of Spark, and rows that Spark wrote back in the index."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import UserError
from ingest.query.index_sql import index_sql
from ingest.spark.cluster import location, readable
from ingest.spark.dialect import functions_and_views, to_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANSWERED_S = 86_400.0
"""No query takes so long: a folder of answers that is older was left by one that was killed."""
_SCRATCH = "spark-"
_ANSWERS = "answers-"


@contextmanager
def scratch_folder(index_folder: Path) -> Iterator[Path]:
    """A folder that all machines see, removed in the end; what killed owners left is removed too.

    The lock of the index must be held.
    """
    for left in index_folder.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = index_folder / f"{_SCRATCH}{os.getpid()}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def answers_folder(index_folder: Path) -> Iterator[Path]:
    """The same for a query, which holds no lock: others may have theirs at the same time.

    Raises UserError where the index folder cannot be written.
    """
    try:
        for left in index_folder.glob(f"{_ANSWERS}*"):
            with suppress(FileNotFoundError):  # its query has ended
                if time.time() - left.stat().st_mtime > ANSWERED_S:
                    shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=_ANSWERS, dir=index_folder))
    except OSError as error:
        raise UserError(
            f"{index_folder} cannot be written ({error.strerror}), where Spark must find the "
            "tables of the index; check its permissions and free space, or query without Spark"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def show_tables(
    spark: SparkSession, tables: Iterable[tuple[str, pa.Table]], scratch: Path, of_questions: bool
) -> None:
    """Make views of tables of the index, and the functions and views that shared texts use."""
    for name, rows in tables:
        file = scratch / f"{name}.parquet"
        pq.write_table(rows, file)
        spark.read.parquet(readable(file)).createOrReplaceTempView(name)
    for statement in functions_and_views(of_questions):
        spark.sql(statement)


def rows_of_text(spark: SparkSession, name: str, values: Mapping[str, Any]) -> DataFrame:
    """Rows of a text of sql/index; of the values it takes those that it names."""
    text = to_spark(index_sql(name))
    return spark.sql(text, {key: value for key, value in values.items() if f":{key}" in text})


def written(rows: DataFrame, folder: Path) -> list[str]:
    """Files of rows that Spark has computed and written; a task that was repeated counts once."""
    rows.write.mode("overwrite").parquet(location(folder))
    return sorted(str(file) for file in folder.glob("part-*.parquet"))
