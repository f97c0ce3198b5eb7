"""The manifest: which files hold which rows. It decides what a query opens; nothing globs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import printable
from ingest.run_folder.run_paths import is_data_path, plain_file
from trace_hooks.schema import TABLES, SegmentName, check_version
from trace_hooks.schema.bounds import beyond_bounds

Connection = duckdb.DuckDBPyConnection

SPAN_OF_TIME = {
    "collectives": (("enqueue_ns", "start_ns"), ("start_ns", "end_ns"), None),
    "steps": (("start_ns",), ("start_ns",), "dur_ns"),
    "spans": (("ts_ns",), ("ts_ns",), "dur_ns"),
    "groups": None,
}
"""table -> (columns of the first moment, of the last, duration to add); others: ts_ns."""

MERGED_FROM = b"rankscope.inputs"
"""Parquet metadata of a merged file: the files it replaces, one path a line."""


@dataclass(frozen=True)
class FileEntry:
    """One row of the manifest. ts_max is an upper bound: last start + longest duration."""

    path: str
    table_name: str
    attempt: int
    rank_min: int
    rank_max: int
    step_min: int
    step_max: int
    ts_min: int | None
    ts_max: int | None
    num_rows: int
    num_bytes: int
    schema: str
    tier: int = 0
    problem: str | None = None
    is_partial: bool = False
    """lacks nullable columns that this version of the schema has"""


_TEXT_FIELDS = ("path", "table_name", "schema", "problem")
_ROW_SCHEMA = pa.schema(
    [
        (f.name, pa.string() if f.name in _TEXT_FIELDS else pa.int64())
        for f in fields(FileEntry)[:-1]
    ]
    + [("is_partial", pa.bool_())]
)


class DamagedFile(Exception):
    """A data file that cannot be used; the text is one sentence."""


class _Extents:
    """Least and greatest values of integer columns, by the statistics in a footer."""

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._number = {name: number for number, name in enumerate(metadata.schema.names)}
        self._groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        self._known: dict[str, tuple[int, int]] = {}

    def of(self, column: str) -> tuple[int, int]:
        """Raises DamagedFile where there are no statistics."""
        if column not in self._known:
            found = [group.column(self._number[column]).statistics for group in self._groups]
            if not found or not all(one is not None and one.has_min_max for one in found):
                raise DamagedFile(
                    f"has no statistics for column {column}; write it again with statistics"
                )
            self._known[column] = min(one.min for one in found), max(one.max for one in found)
        return self._known[column]


def _time_extent(extents: _Extents, table: str) -> tuple[int | None, int | None]:
    plan = SPAN_OF_TIME.get(table, (("ts_ns",), ("ts_ns",), None))
    if plan is None:
        return None, None
    firsts, lasts, duration = plan
    first = min(extents.of(name)[0] for name in firsts)
    last = max(extents.of(name)[1] for name in lasts)
    return first, last + (extents.of(duration)[1] if duration else 0)


def _are_alike(found: pa.DataType, right: pa.DataType) -> bool:
    """Whether a column of one type can be read together with those of the other: both are whole
    numbers, or both are texts, of whatever width and encoding.
    """
    return found == right or _kind(found) == _kind(right)


def _kind(type_: pa.DataType) -> object:
    if pa.types.is_dictionary(type_):
        return _kind(type_.value_type)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return "list", _kind(type_.value_type)
    of_kind = {
        "whole number": pa.types.is_signed_integer,
        "number": pa.types.is_floating,
        "text": lambda one: pa.types.is_string(one) or pa.types.is_large_string(one),
        "bytes": lambda one: pa.types.is_binary(one) or pa.types.is_large_binary(one),
    }
    return next((kind for kind, is_one in of_kind.items() if is_one(type_)), type_)


def _check_columns(schema: pa.Schema, table: str, path: Path) -> bool:
    """Whether nullable columns are missing; raises DamagedFile when others are, or hold something
    else than the table's.
    """
    partial = False
    for column in TABLES[table].columns:
        index = schema.get_field_index(column.name)
        partial |= index < 0
        if index < 0 and not column.nullable:
            raise DamagedFile(f"lacks the column {column.name} of the table {table}")
        if index >= 0 and not _are_alike(found := schema.field(index).type, column.type):
            raise DamagedFile(f"has {column.name} as {str(found)[:60]}, not {column.type}")
    version = (schema.metadata or {}).get(b"rankscope.schema", b"").decode()
    try:
        check_version(version, path.name)
    except ValueError as error:
        raise DamagedFile(str(error)) from error
    return partial


def read_entry(folder: Path, path: str, tier: int = 0) -> tuple[FileEntry, list[str]]:
    """Manifest row of a data file, from its footer, and the paths of the files it replaces.

    A file that cannot be used gets a row with `problem` set.
    """
    where = folder / path
    name = SegmentName.parse(where.name)
    table = name.table if name else where.name.partition("-")[0]
    attempt, rank = (name.attempt, name.rank) if name else (0, 0)
    entry = FileEntry(
        printable(path), printable(table), attempt, rank, rank, 0, 0, None, None, 0, 0, "", tier
    )
    try:
        if not path.isprintable():  # such a path would not survive a merged file's list of inputs
            raise DamagedFile("its name has control characters; rename it")
        plain_file(where)  # opening a pipe or a device would never end
        return _described(entry, where)
    except (pa.ArrowException, OSError, DamagedFile, UnicodeDecodeError) as error:
        reason = " ".join(f"{where.name} was set aside: {error}".split())[:500]
        return replace(entry, problem=printable(reason)), []


def _described(entry: FileEntry, where: Path) -> tuple[FileEntry, list[str]]:
    """The entry completed from the footer; raises DamagedFile or what reading raises."""
    with pa.OSFile(str(where)) as opened, pq.ParquetFile(opened) as file:
        num_bytes, metadata, schema = opened.size(), file.metadata, file.schema_arrow
    labels = schema.metadata or {}
    table = labels.get(b"rankscope.table", b"").decode()
    if table != entry.table_name or table not in TABLES:
        raise DamagedFile(f"its name says {entry.table_name!r}, its metadata table {table!r}")
    is_partial = _check_columns(schema, table, where)
    inputs = labels.get(MERGED_FROM, b"").decode().split("\n") if MERGED_FROM in labels else []
    entry = replace(
        entry,
        num_rows=metadata.num_rows,
        num_bytes=num_bytes,
        schema=labels[b"rankscope.schema"].decode(),
        is_partial=is_partial,
    )
    if not metadata.num_rows:
        return entry, inputs
    extents = _Extents(metadata)
    attempts = extents.of("attempt")
    if attempts[0] != attempts[1]:
        raise DamagedFile("it mixes several attempts; a file belongs to one")
    beyond = beyond_bounds(table, extents.of)
    if beyond:
        raise DamagedFile(beyond)
    ranks, steps = extents.of("rank"), extents.of("step")
    first, last = _time_extent(extents, table)
    return replace(
        entry,
        attempt=attempts[0],
        rank_min=ranks[0],
        rank_max=ranks[1],
        step_min=steps[0],
        step_max=steps[1],
        ts_min=first,
        ts_max=last,
    ), inputs


@dataclass(frozen=True)
class Narrowing:
    """Part of a table; None is all of it. Ends are included."""

    attempt: int | None = None
    rank_min: int | None = None
    rank_max: int | None = None
    step_min: int | None = None
    step_max: int | None = None
    ts_min: int | None = None
    ts_max: int | None = None


_PICK = """
SELECT path FROM files WHERE table_name = $table AND problem IS NULL AND num_rows > 0
  AND ($attempt IS NULL OR attempt = $attempt)
  AND ($rank_min IS NULL OR rank_max >= $rank_min) AND ($rank_max IS NULL OR rank_min <= $rank_max)
  AND ($step_min IS NULL OR step_max >= $step_min) AND ($step_max IS NULL OR step_min <= $step_max)
  AND ($ts_min IS NULL OR ts_max >= $ts_min) AND ($ts_max IS NULL OR ts_min <= $ts_max)
ORDER BY attempt, step_min, rank_min, path
"""


class Manifest:
    """The table `files` of an open index database."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def pick(self, table: str, narrowing: Narrowing | None = None) -> list[str]:
        """Paths, relative to the run folder, of the files a query over `table` has to open."""
        bounds = narrowing or Narrowing()
        values = {field.name: getattr(bounds, field.name) for field in fields(bounds)}
        rows = self.connection.execute(_PICK, {"table": table, **values}).fetchall()
        return [path for (path,) in rows if is_data_path(path)]

    def known_paths(self) -> set[str]:
        """Every path in the manifest, set aside or not, and every retired one."""
        rows = self.connection.execute("SELECT path FROM files UNION SELECT path FROM retired")
        return {path for (path,) in rows.fetchall()}

    def entries(self, table: str | None = None) -> list[FileEntry]:
        """Usable files of one table or of all."""
        rows = self.connection.execute(
            "SELECT * FROM files WHERE problem IS NULL AND ($table IS NULL OR table_name = $table)"
            " ORDER BY attempt, ts_min, path",
            {"table": table},
        ).fetchall()
        return [FileEntry(*row) for row in rows]

    def problems(self) -> list[str]:
        """One sentence per file that was set aside."""
        rows = self.connection.execute(
            "SELECT problem FROM files WHERE problem IS NOT NULL ORDER BY path"
        )
        return [problem for (problem,) in rows.fetchall()]

    def add(self, entries: Sequence[FileEntry]) -> None:
        """Add rows; inside the caller's transaction."""
        if entries:
            rows = pa.Table.from_pylist([vars(entry) for entry in entries], schema=_ROW_SCHEMA)
            self.connection.register("incoming_files", rows)
            self.connection.execute("INSERT INTO files SELECT * FROM incoming_files")
            self.connection.unregister("incoming_files")

    def set_aside(self, path: str, problem: str) -> None:
        """Mark a file as unusable."""
        self.connection.execute("UPDATE files SET problem = ? WHERE path = ?", [problem, path])

    def retire(self, paths: Iterable[str], now_ns: int) -> None:
        """Take files out: a merged one holds their rows. They are deleted later."""
        values = {"paths": list(paths), "now": now_ns}
        if values["paths"]:
            self.connection.execute(
                "DELETE FROM files WHERE path IN (SELECT unnest($paths))",
                {"paths": values["paths"]},
            )
            self.connection.execute(
                "INSERT OR IGNORE INTO retired SELECT DISTINCT unnest($paths), $now", values
            )
