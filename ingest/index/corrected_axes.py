"""Axes of process groups in an index, where somebody corrected the layout by hand (layout.json)."""

from __future__ import annotations

import json

import pyarrow as pa

from ingest.errors import UserError
from ingest.index.index_database import IndexDatabase
from ingest.run_folder.rank_files import RankFiles
from ingest.run_folder.run_files import read_correction
from trace_hooks.layout import ParallelLayout

Axes = dict[tuple[int, int], str]

_FRESH = pa.schema([("attempt", pa.int64()), ("group_id", pa.int64()), ("axis", pa.string())])


class CorrectedAxes:
    """Keeps `group_members.axis` as the corrected layout has it; inside the indexer's transaction.

    A group along no axis of the layout keeps the axis in the files, and so does one of
    experts: they are a factorisation of their own.
    """

    def __init__(self, database: IndexDatabase, rank_files: RankFiles) -> None:
        self.database = database
        self._rank_files = rank_files

    def is_current(self) -> bool:
        """Whether the index follows layout.json as it is now."""
        return self._followed() == _content(self._layout())

    def before(self) -> Axes:
        """What `update` compares with; empty where no layout is corrected, nor was."""
        return self._stored() if self._layout() is not None or self._followed() else {}

    def _stored(self) -> Axes:
        """(attempt, group_id) -> axis as the index has it."""
        rows = self.database.connection.execute("SELECT attempt, group_id, axis FROM group_members")
        return {(attempt, group_id): axis for attempt, group_id, axis in rows.fetchall()}

    def update(self, before: Axes) -> set[int]:
        """Bring the axes up to date; attempts with a group whose axis is not what it was."""
        layout = self._layout()
        if layout is None and not self._followed():
            return set()
        self.database.connection.execute("DELETE FROM corrected_layout")
        self.database.connection.execute(
            "UPDATE group_members SET axis = told_axis WHERE axis <> told_axis"
        )
        if layout is not None:
            self.database.connection.execute(
                "INSERT INTO corrected_layout VALUES (?)", [_content(layout)]
            )
            self._correct(layout)
        after = self._stored()
        return {key[0] for key, axis in after.items() if before.get(key, axis) != axis}

    def _followed(self) -> str:
        rows = self.database.connection.execute("SELECT content FROM corrected_layout").fetchall()
        return str(rows[0][0]) if rows else ""

    def _layout(self) -> ParallelLayout | None:
        try:
            correction = read_correction(self.database.run_folder)
        except UserError:  # RankFiles reports it as a problem of the run
            return None
        return None if correction is None else correction.layout

    def _correct(self, layout: ParallelLayout) -> None:
        """In the attempts whose ranks follow it."""
        wanted = layout.to_json()
        connection = self.database.connection
        ranks, _ = self._rank_files.read()
        attempts = sorted({info["attempt"] for info in ranks if info.get("layout") == wanted})
        rows = connection.execute(
            "SELECT attempt, group_id, ranks FROM group_members"
            " WHERE told_axis <> 'ep' AND list_contains(?, attempt)",
            [attempts],
        ).fetchall()
        axes = [(attempt, group, layout.axis_of(ranks or ())) for attempt, group, ranks in rows]
        fresh = [dict(zip(_FRESH.names, row, strict=True)) for row in axes if row[2] != "unknown"]
        connection.register("fresh_axes", pa.Table.from_pylist(fresh, schema=_FRESH))
        connection.execute(
            "UPDATE group_members SET axis = f.axis FROM fresh_axes f"
            " WHERE group_members.attempt = f.attempt AND group_members.group_id = f.group_id"
        )
        connection.unregister("fresh_axes")


def _content(layout: ParallelLayout | None) -> str:
    return "" if layout is None else json.dumps(layout.to_json())
