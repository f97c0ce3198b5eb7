"""Rows of one raw table of a run, or of a window of it, as one Parquet file or CSV."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ingest.errors import UserError
from ingest.exports.csv_cells import harmless_column
from ingest.exports.window import Window, published
from ingest.run import Run
from ingest.run_folder.run_paths import readable
from trace_hooks.schema import TABLES, column_encodings, dictionary_columns

_ROWS_AT_ONCE = 1 << 16
_NO_TIME = ("groups",)


class Clocks:
    """What to add to the ranks' own times, from the table clock_offsets."""

    def __init__(self, run: Run) -> None:
        rows = run.index_rows(
            "SELECT attempt, rank, valid_from_ns, ts_ns, offset_ns, drift_ppb FROM clock_offsets"
            " ORDER BY attempt, rank, valid_from_ns"
        )
        offsets: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for row in rows:
            attempt, rank, *values = row.values()
            offsets.setdefault((attempt, rank), []).append(tuple(values))
        self._offsets = {key: np.array(values, np.int64) for key, values in offsets.items()}

    def aligned(self, rows: pa.RecordBatch, ts_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """`ts_ns` of the rows, on rank 0's clock."""
        aligned_ns = ts_ns.copy()
        attempts, ranks = rows["attempt"].to_numpy(), rows["rank"].to_numpy()
        for attempt, rank in set(zip(attempts.tolist(), ranks.tolist(), strict=True)):
            offsets = self._offsets.get((attempt, rank))
            if offsets is None:
                continue
            own = (attempts == attempt) & (ranks == rank)
            newest = np.searchsorted(offsets[:, 0], ts_ns[own], side="right") - 1
            _, since_ns, offset_ns, drift_ppb = offsets[np.maximum(newest, 0)].T
            drift_ns = np.rint(drift_ppb * ((ts_ns[own] - since_ns) / 1e9)).astype(np.int64)
            aligned_ns[own] += np.where(newest >= 0, offset_ns + drift_ns, 0)
        return aligned_ns


def table_batches(run: Run, table: str, window: Window) -> Iterator[pa.RecordBatch]:
    """Rows of a table in the window, in the schema's columns, as the files lie.

    Raises UserError where a file is damaged or was merged away meanwhile.
    """
    clocks = Clocks(run) if window.t is not None and table not in _NO_TIME else None
    for path in run.snapshot.files(table, window.narrowing()):
        try:
            with pq.ParquetFile(readable(path)) as file:
                for rows in file.iter_batches(_ROWS_AT_ONCE):
                    kept = _kept(_as_schema(rows, table), window, run, clocks)
                    if kept.num_rows:
                        yield kept
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"{Path(path).name} cannot be read ({reason}); try again") from None


def _as_schema(rows: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """The rows with the columns of this version: what an older file lacks is NULL."""
    schema = TABLES[table].schema
    names = set(rows.schema.names)
    columns = [
        rows[field.name].cast(field.type)
        if field.name in names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _kept(rows: pa.RecordBatch, window: Window, run: Run, clocks: Clocks | None) -> pa.RecordBatch:
    mask = np.ones(rows.num_rows, np.bool_)
    if window.attempt is not None:
        mask &= rows["attempt"].to_numpy() == window.attempt
    if window.ranks:
        mask &= np.isin(rows["rank"].to_numpy(), window.ranks)
    if window.steps is not None:
        step = rows["step"].to_numpy()
        mask &= (window.steps[0] <= step) & (step <= window.steps[1])
    if window.t is not None and clocks is not None:
        t0_ns = run.info["created_ns"]
        start_ns, dur_ns = _times(rows)
        at_ns = clocks.aligned(rows, start_ns) - t0_ns
        mask &= (at_ns < window.t[1]) & (at_ns + np.maximum(dur_ns, 0) >= window.t[0])
    return rows if mask.all() else rows.filter(pa.array(mask))


def _times(rows: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Begin on the rank's own clock and duration of every row; an instant lasts 0 ns."""
    names = rows.schema.names
    start_ns = rows["ts_ns" if "ts_ns" in names else "start_ns"].to_numpy()
    if "dur_ns" in names:
        return start_ns, rows["dur_ns"].to_numpy()
    if "end_ns" in names:
        return start_ns, rows["end_ns"].to_numpy() - start_ns
    return start_ns, np.zeros(len(start_ns), np.int64)


def write_parquet(run: Run, table: str, window: Window, out: Path) -> int:
    """One Parquet file with the schema's columns and metadata; returns its rows. UserError."""
    schema = TABLES[table].schema
    about = {b"rankscope.run": run.info["run"].encode(), b"rankscope.t0_ns": _t0(run)}
    schema = schema.with_metadata({**(schema.metadata or {}), **about})
    num_rows = 0
    with (
        published(out) as file,
        pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=dictionary_columns(table),
            column_encoding=column_encodings(table),
        ) as writer,
    ):
        for rows in table_batches(run, table, window):
            writer.write_batch(rows.replace_schema_metadata(schema.metadata))
            num_rows += rows.num_rows
    return num_rows


def _t0(run: Run) -> bytes:
    return str(run.info["created_ns"]).encode()


def write_csv(run: Run, table: str, window: Window, out: Path) -> int:
    """CSV with a line of names first, texts quoted, NULL empty; returns its rows. UserError.

    What a spreadsheet would take for a formula gets a quote in front.
    """
    schema = pa.schema([(field.name, _plain(field.type)) for field in TABLES[table].schema])
    num_rows = 0
    with published(out) as file, pyarrow.csv.CSVWriter(file, schema) as writer:
        for rows in table_batches(run, table, window):
            columns = [_plain_column(column) for column in rows.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            num_rows += rows.num_rows
    return num_rows


def _plain(kind: pa.DataType) -> pa.DataType:
    is_text = pa.types.is_dictionary(kind) or pa.types.is_list(kind)
    return pa.string() if is_text or kind == pa.binary() else kind


def _plain_column(column: Any) -> Any:
    """A column CSV can hold: lists with spaces between, bytes in base64, texts no formulas."""
    if column.type == pa.binary():
        return pa.array([base64.b64encode(value).decode() for value in column.to_pylist()])
    if pa.types.is_list(column.type):
        return pc.binary_join(column.cast(pa.list_(pa.string())), " ")
    column = column.cast(_plain(column.type))
    return harmless_column(column) if column.type == pa.string() else column
