"""One pass over what was touched, on a Spark cluster: the SQL of the index, its sums by blocks of
ranks, and the rows back into the index.

Spark reads the segments and a copy of the index's small tables, and writes Parquet into a folder
next to the index; so all machines must see the run folder under one path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ingest.query.manifest import Connection, Manifest, Narrowing
from ingest.run_folder.run_paths import data_file
from ingest.spark.blocks import KNOWN, LATE, TRANSFER, WINDOW, Part, block_rows
from ingest.spark.cluster import read_files
from ingest.spark.index_views import rows_of_text, scratch_folder, show_tables, written
from trace_hooks.schema import KINDS, MODES
from trace_hooks.schema.bundles import RANK_BAND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_AT_ONCE = 250_000
"""Spans of a block, which are in the memory of one task; about 500 bytes each."""

_EVERY_RANK = {"rank_min": 0, "rank_max": int(np.iinfo(np.int32).max)}
_COPIED = {
    name: f"SELECT * FROM {name} WHERE attempt = $attempt"  # noqa: S608 - names are these
    for name in ("step_rows", "evaluations", "group_members", "clock_offsets")
}
_DELETES = (
    "DELETE FROM step_rollup WHERE attempt = ? AND step BETWEEN ? AND ?",
    "DELETE FROM kind_rollup WHERE attempt = ? AND step BETWEEN ? AND ?",
    "DELETE FROM collective_rollup WHERE attempt = ? AND step BETWEEN ? AND ?",
)
_KNOWN = "SELECT rank, step FROM collective_members GROUP BY rank, step HAVING bool_and(usable)"


class SparkRollupPass:
    """Brings the rollups of an index up to date, inside the transaction of the indexer."""

    def __init__(
        self,
        spark: SparkSession,
        connection: Connection,
        folder: Path,
        index_folder: Path,
        relative: bool,
    ) -> None:
        self._spark, self._connection = spark, connection
        self._folder, self._index_folder = folder, index_folder
        self._relative = relative
        self._manifest = Manifest(connection)

    def update(self, touched: Mapping[int, tuple[int, int]]) -> None:
        """Replace the rollup rows of these steps, all ranks; first and last step by attempt."""
        for attempt, (low, high) in sorted(touched.items()):
            with scratch_folder(self._index_folder) as scratch:
                tables = [
                    (name, self._connection.sql(text, params={"attempt": attempt}).to_arrow_table())
                    for name, text in _COPIED.items()
                ]
                show_tables(self._spark, tables, scratch, of_questions=False)
                for part in self._parts(attempt, low, high):
                    self._update_part(part, scratch)

    def _parts(self, attempt: int, low: int, high: int) -> Iterator[Part]:
        """Cut steps [low, high] so that the spans of one rank fit into a block."""
        row = self._connection.execute(
            "SELECT coalesce(sum(num_rows) FILTER (table_name = 'spans'), 0), min(step_min),"
            " max(step_max), max(rank_max) - min(rank_min) + 1 FROM files WHERE attempt = ?"
            " AND table_name IN ('spans', 'collectives') AND problem IS NULL AND num_rows > 0",
            [attempt],
        ).fetchall()[0]
        spans, first, last, ranks = row if row[1] is not None else (0, low, high, 1)
        low, high = max(low, min(first, low)), min(high, max(last, high))
        of_cell = max(int(spans) / ranks / max(last - first + 1, 1), 1)  # of a rank and step
        steps = int(min(max(ROWS_AT_ONCE / of_cell, 1), max(high - low + 1, 1)))
        ranks_at_once = int(min(max(ROWS_AT_ONCE / of_cell / steps, 1), RANK_BAND))
        for start in range(low, high + 1, steps):
            end = min(start + steps - 1, high)
            yield Part(attempt, start, end, ranks_at_once, self._relative)

    def _update_part(self, part: Part, scratch: Path) -> None:
        for statement in _DELETES:
            self._connection.execute(statement, [part.attempt, part.step_min, part.step_max])
        has_members = self._find_members(part, scratch)
        windows = rows_of_text(self._spark, "load_windows", self._values(part)).persist()
        self._store_sums(
            part, self._spans(part, windows), self._marks(windows, has_members), scratch
        )
        self._spark.catalog.clearCache()

    def _values(self, part: Part, **more: Any) -> dict[str, Any]:
        steps = {"step_min": part.step_min, "step_max": part.step_max}
        return {"attempt": part.attempt, **steps, **_EVERY_RANK, "relative": part.relative, **more}

    def _files(self, table: str, *narrowings: Narrowing) -> list[str]:
        paths = dict.fromkeys(path for n in narrowings for path in self._manifest.pick(table, n))
        return [str(data_file(self._folder, self._index_folder, path)) for path in paths]

    def _find_members(self, part: Part, scratch: Path) -> bool:
        """Make the view collective_members, and store its rollup; False: there are none."""
        steps = {"step_min": part.step_min - 1, "step_max": part.step_max + 1}
        files = self._files("collectives", Narrowing(part.attempt, **steps))
        if not files:
            return False
        read_files(self._spark, "collectives", files).createOrReplaceTempView("collectives")
        members = rows_of_text(self._spark, "collective_members", self._values(part)).persist()
        members.createOrReplaceTempView("collective_members")
        rollup = rows_of_text(self._spark, "collective_sums", self._values(part))
        self._connection.execute(
            "INSERT INTO collective_rollup FROM read_parquet($files)",
            {
                "files": written(
                    rollup.toDF(*self._columns("collective_rollup")), scratch / "rollup"
                )
            },
        )
        return True

    def _columns(self, table: str) -> list[str]:
        found = self._connection.table(table).columns
        return [str(name) for name in found]

    def _spans(self, part: Part, windows: DataFrame) -> DataFrame:
        """Spans that can lie in the windows, as load_spans has them."""
        from_ns = to_ns = 0
        narrowings = [Narrowing(part.attempt, step_min=part.step_min, step_max=part.step_max)]
        if not part.relative:
            is_asked = f"step BETWEEN {part.step_min} AND {part.step_max}"
            extent = windows.where(is_asked).selectExpr("min(begin_ns)", "max(end_ns)").first()
            if extent is not None and extent[0] is not None:
                from_ns, to_ns = extent
                narrowings.append(Narrowing(part.attempt, ts_min=from_ns, ts_max=to_ns))
        files = self._files("spans", *narrowings)
        read_files(self._spark, "spans", files).createOrReplaceTempView("spans")
        lists = {"kinds": list(KINDS), "modes": list(MODES)}
        values = self._values(part, from_ns=from_ns, to_ns=to_ns, **lists)
        return rows_of_text(self._spark, "load_spans", values)

    def _marks(self, windows: DataFrame, has_members: bool) -> DataFrame:
        marks = windows.selectExpr(f"{WINDOW} AS what", "rank", "step", "begin_ns", "end_ns")
        if not has_members:
            return marks
        moved = rows_of_text(self._spark, "load_transfers", _EVERY_RANK).selectExpr(
            f"if(is_late, {LATE}, {TRANSFER})", "rank", "step", "begin_ns", "end_ns"
        )
        known = self._spark.sql(_KNOWN).selectExpr(f"{KNOWN}", "rank", "step", "0L", "0L")
        return marks.union(moved).union(known)

    def _store_sums(self, part: Part, spans: DataFrame, marks: DataFrame, scratch: Path) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        block, schema = f"rank div {part.ranks_at_once}", self._schema_of_sums()

        def rows(of_spans: pa.Table, of_marks: pa.Table) -> pa.Table:
            return block_rows(part, schema, of_spans, of_marks)

        by_block = spans.selectExpr("*", f"{block} AS block").groupBy("block")
        marked = marks.selectExpr("*", f"{block} AS block").groupBy("block")
        sums = by_block.cogroup(marked).applyInArrow(rows, from_arrow_schema(schema))
        files = written(sums, scratch / "sums")
        for table, which in (("step_rollup", "kind IS NULL"), ("kind_rollup", "kind IS NOT NULL")):
            names = ", ".join(name for name in self._columns(table) if name != "attempt")
            self._connection.execute(
                f"INSERT INTO {table} BY NAME SELECT $attempt AS attempt, {names}"  # noqa: S608
                f" FROM read_parquet($files) WHERE problem IS NULL AND {which} ORDER BY rank, step",
                {"attempt": part.attempt, "files": files},
            )
        self._store_problems(part, files)

    def _store_problems(self, part: Part, files: list[str]) -> None:
        source = f"rollups of Spark, attempt {part.attempt}, from step {part.step_min}"
        self._connection.execute("DELETE FROM problems WHERE source = ?", [source])
        self._connection.execute(
            "INSERT INTO problems SELECT $source, problem FROM read_parquet($files)"
            " WHERE problem IS NOT NULL ORDER BY problem",
            {"source": source, "files": files},
        )

    def _schema_of_sums(self) -> pa.Schema:
        """Columns of step_rollup and kind_rollup, and the problem of a block."""
        found = [
            self._connection.sql(f"FROM {table} LIMIT 0").to_arrow_table().schema
            for table in ("step_rollup", "kind_rollup")
        ]
        merged = pa.unify_schemas(found)
        fields = [field for field in merged if field.name != "attempt"]
        return pa.schema([*fields, pa.field("problem", pa.string())])
