"""Brings the rollups of an index database up to date for the steps that new files touched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.index.collective_pass import CollectivePass
from ingest.index.pass_plan import BAND, Part, Tile, parts_of, tiles_of
from ingest.intervals import Bools, Ints
from ingest.query.index_sql import index_sql
from ingest.query.manifest import Connection, FileEntry, Manifest, Narrowing
from ingest.run_folder.run_paths import data_file
from trace_hooks.schema import KINDS, MODES
from trace_hooks.step_sums.rollups import (
    Rollups,
    Spans,
    Transfers,
    Windows,
    cells,
    complete_windows,
    rollups,
)


def touched_steps(
    connection: Connection, entries: Iterable[FileEntry], relative: bool
) -> dict[int, tuple[int, int]]:
    """Per attempt the first and last step whose rollups the new files can change.

    A span can last into later steps, or until one begins, and a step's row moves the next step's
    beginning.
    """
    touched: dict[int, tuple[int, int]] = {}
    latest_ns: dict[int, int] = {}
    for entry in entries:
        if entry.problem or not entry.num_rows or entry.table_name not in TOUCHING:
            continue
        low, high = entry.step_min, entry.step_max + (entry.table_name == "steps")
        known = touched.get(entry.attempt, (low, high))
        touched[entry.attempt] = min(known[0], low), max(known[1], high)
        if not relative and entry.ts_max is not None:
            latest_ns[entry.attempt] = max(latest_ns.get(entry.attempt, entry.ts_max), entry.ts_max)
    for attempt, ts_max in latest_ns.items():
        low, high = touched[attempt]
        row = connection.execute(
            "SELECT max(step) FROM step_rows WHERE attempt = ? AND step > ? AND start_ns <= ?",
            [attempt, high, ts_max],
        ).fetchall()[0]
        touched[attempt] = low, max(high, row[0]) if row[0] is not None else high
    return touched


TOUCHING = ("spans", "collectives", "steps", "groups", "step_sums", "kind_sums")


class RollupPass:
    """One pass over what was touched, on the indexer's own connection, inside its transaction."""

    def __init__(
        self, connection: Connection, folder: Path, index_folder: Path, relative: bool
    ) -> None:
        self.connection = connection
        self.folder, self._index_folder = folder, index_folder
        self.relative = relative
        self.manifest = Manifest(connection)
        self._collectives = CollectivePass(connection, index_folder)

    def update(self, touched: dict[int, tuple[int, int]]) -> None:
        """Replace the rollup rows of these steps, all ranks."""
        with self._collectives:
            for attempt, (low, high) in sorted(touched.items()):
                for part in parts_of(self.connection, attempt, low, high):
                    self._update_steps(part)

    def _files(self, table: str, *narrowings: Narrowing) -> list[str]:
        paths = dict.fromkeys(path for n in narrowings for path in self.manifest.pick(table, n))
        return [str(data_file(self.folder, self._index_folder, path)) for path in paths]

    def _update_steps(self, part: Part) -> None:
        for statement in _DELETES:
            self.connection.execute(statement, [part.attempt, part.step_min, part.step_max])
        steps = {"step_min": part.step_min - 1, "step_max": part.step_max + 1}
        self._collectives.load(part, self._files("collectives", Narrowing(part.attempt, **steps)))
        for tile in tiles_of(self.connection, part):
            self._update_ranks(tile)

    def _windows(self, tile: Tile) -> Windows:
        rows = self.connection.sql(
            index_sql("load_windows"), params={**tile.values, "relative": self.relative}
        ).to_arrow_table()
        rank, step, begin, end = (_ints(rows, name) for name in rows.column_names)
        return Windows(rank, step, begin, end, np.ones(rows.num_rows, dtype=bool))

    def _spans(self, tile: Tile, windows: Windows) -> Spans:
        is_asked_C = (windows.step_C >= tile.step_min) & (windows.step_C <= tile.step_max)
        by_time = is_asked_C.any() and not self.relative
        from_ns = int(windows.begin_C[is_asked_C].min()) if by_time else 0
        to_ns = int(windows.end_C[is_asked_C].max()) if by_time else 0
        ranks = {"attempt": tile.attempt, "rank_min": tile.rank_min, "rank_max": tile.rank_max}
        narrowings = [Narrowing(**ranks, step_min=tile.step_min, step_max=tile.step_max)]
        if by_time:
            narrowings.append(Narrowing(**ranks, ts_min=from_ns, ts_max=to_ns))
        files = self._files("spans", *narrowings)
        if not files:
            return Spans.none()
        rows = self.connection.sql(
            index_sql("load_spans"),
            params={
                **tile.values,
                "spans": files,
                "kinds": list(KINDS),
                "modes": list(MODES),
                "from_ns": from_ns,
                "to_ns": to_ns,
            },
        ).to_arrow_table()
        return Spans.from_arrow(rows)

    def _transfers(self, tile: Tile) -> Transfers:
        ranks = {"rank_min": tile.rank_min, "rank_max": tile.rank_max}
        rows = self._collectives.ask(index_sql("load_transfers"), ranks)
        rank, step, begin, end, late = (_ints(rows, name) for name in rows.column_names)
        return Transfers(rank, step, begin, end, late.astype(np.bool_))

    def _are_known(self, tile: Tile, windows: Windows) -> Bools:
        """Cells whose transfers are all known."""
        known_C = np.zeros(windows.rank_C.size, dtype=np.bool_)
        rows = self._collectives.ask(
            "SELECT rank, step FROM collective_members"
            " WHERE rank BETWEEN $rank_min AND $rank_max"
            " GROUP BY rank, step HAVING bool_and(usable)",
            {"rank_min": tile.rank_min, "rank_max": tile.rank_max},
        )
        cell = cells(windows, _ints(rows, "rank"), _ints(rows, "step"))
        known_C[cell[cell >= 0]] = True
        return known_C

    def _update_ranks(self, tile: Tile) -> None:
        """Update neighbouring ranks together; band by band where one has times centuries apart: a
        damaged clock, and no reason to stop.
        """
        bands = _bands_of(tile)
        self.connection.execute(
            "DELETE FROM problems WHERE list_contains(?, source)",
            [[f"rollups {one}" for one in bands]],
        )
        given = self._given(tile)
        try:
            fresh = rollups(*given)
        except ValueError as error:
            if len(bands) > 1:
                for band in bands:
                    self._update_ranks(band)
                return
            text = (
                f"steps {tile.step_min} to {tile.step_max} of ranks from {tile.rank_min}: {error}"
            )
            self.connection.execute("INSERT INTO problems VALUES (?, ?)", [f"rollups {tile}", text])
            return
        self._store(tile, fresh)

    def _given(self, tile: Tile) -> tuple[Spans, Windows, Transfers, bool, Bools]:
        """What the rollups of a tile are made of."""
        windows = self._windows(tile)
        spans = self._spans(tile, windows)
        windows = complete_windows(windows, spans, tile.step_min, tile.step_max)
        known_C, moved = np.zeros(windows.rank_C.size, dtype=np.bool_), Transfers.none()
        if self._collectives.show(tile):
            known_C, moved = self._are_known(tile, windows), self._transfers(tile)
        return spans, windows, moved, self.relative, known_C

    def _store(self, tile: Tile, fresh: Rollups) -> None:
        for name, columns in (("step", fresh.steps), ("kind", fresh.kinds)):
            step = columns["step"]
            is_inside = (step >= tile.step_min) & (step <= tile.step_max)
            columns = {key: _column(key, values[is_inside]) for key, values in columns.items()}
            self._insert(name, tile.attempt, pa.table(columns))

    def _insert(self, name: str, attempt: int, fresh_rows: pa.Table) -> None:
        """Add rows. DuckDB finds fresh_rows by its name; what is registered takes memory until the
        transaction ends.
        """
        self.connection.execute(_INSERTS[name], [attempt])


def _bands_of(tile: Tile) -> list[Tile]:
    """The tile cut into bands of ranks."""
    if tile.rank_max - tile.rank_min < BAND:
        return [tile]
    return [
        replace(tile, rank_min=first, rank_max=first + BAND - 1)
        for first in range(tile.rank_min, tile.rank_max + 1, BAND)
    ]


def _ints(rows: pa.Table, name: str) -> Ints:
    return np.asarray(rows.column(name).to_numpy(), dtype=np.int64)


def _column(name: str, values: npt.NDArray[Any]) -> pa.Array:
    """Arrow column in which -1 of the times that can be unknown is NULL."""
    unknown = None
    if name.startswith("bubble") or name.endswith("cpu_ns"):
        unknown = values.astype(np.int64) < 0
    return pa.array(values, mask=unknown)


_DELETES = (
    "DELETE FROM step_rollup WHERE attempt = ? AND step BETWEEN ? AND ?",
    "DELETE FROM kind_rollup WHERE attempt = ? AND step BETWEEN ? AND ?",
    "DELETE FROM collective_rollup WHERE attempt = ? AND step BETWEEN ? AND ?",
)
_INSERTS = {
    "step": "INSERT INTO step_rollup BY NAME SELECT ? AS attempt, * FROM fresh_rows",
    "kind": "INSERT INTO kind_rollup BY NAME SELECT ? AS attempt, * FROM fresh_rows",
}
