"""Puts the collectives of some steps together with all their members, in bounded memory.

Members can be of any ranks. Where there are too many rows at once, they are first divided on disk
by group and number, so that all members of an instance come together; put together, they are
divided by rank, as the rollups want them.
"""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from typing import Any

from ingest.index import pass_plan
from ingest.index.pass_plan import BAND, Part, Tile, rank_extent
from ingest.query.connection import quoted
from ingest.query.index_sql import index_sql
from ingest.query.manifest import Connection

_OPTIONS = "FORMAT parquet, COMPRESSION zstd, PARTITION_BY (piece), APPEND"
_NO_SUMS = "CREATE OR REPLACE TEMP TABLE collective_sums AS FROM collective_rollup LIMIT 0"
_READ = (
    "CREATE OR REPLACE TEMP TABLE collective_members AS"
    " FROM read_parquet($files, hive_partitioning = false)"
)


class CollectivePass:
    """A context manager: outside of it nothing is on disk. The lock of the index must be held."""

    def __init__(self, connection: Connection, index_folder: Path) -> None:
        self._connection = connection
        self._scratch = index_folder / f".collectives-{os.getpid()}.tmp"
        self._has_any = self._is_divided = False
        self._ranks_of_piece = BAND
        self._shown: tuple[int, int] | None = None

    def __enter__(self) -> CollectivePass:
        return self

    def __exit__(self, *error: object) -> None:
        self._remove_scratch()

    def load(self, part: Part, files: list[str]) -> None:
        """Fill collective_rollup with the steps of a part; `files` have its collectives.

        Runs in the caller's transaction. Raises duckdb.Error or OSError where a file cannot be read
        or the disk is full.
        """
        self._has_any, self._shown = bool(files), None
        num_pieces = math.ceil(part.num_collectives / pass_plan.COLLECTIVES_AT_ONCE)
        self._is_divided = num_pieces > 1
        if not files:
            return
        self._connection.execute(_NO_SUMS)
        if self._is_divided:
            self._remove_scratch()
            self._put_pieces_together(part, files, num_pieces)
        else:
            self._put_together(part, files)
        self._connection.execute(index_sql("collective_rollup"))

    def show(self, tile: Tile) -> bool:
        """Have collective_members hold those of a tile, if not of more; False: there are none."""
        if not self._has_any or not self._is_divided:
            return self._has_any
        pieces = tile.rank_min // self._ranks_of_piece, tile.rank_max // self._ranks_of_piece
        files = self._files("ranks", *range(pieces[0], pieces[1] + 1))
        if files and pieces != self._shown:
            self._connection.execute(_READ, {"files": files})
            self._shown = pieces
        return bool(files)

    def _put_pieces_together(self, part: Part, files: list[str], num_pieces: int) -> None:
        values = {"collectives": files, "num_pieces": num_pieces, **_steps(part)}
        self._divide("collectives_by_instance", "instances", values)
        first, last = rank_extent(self._connection, part.attempt)
        bands = last // BAND - first // BAND + 1
        self._ranks_of_piece = math.ceil(bands / num_pieces) * BAND
        for piece in range(num_pieces):
            of_piece = self._files("instances", piece)
            if of_piece:
                self._put_together(part, of_piece)
                self._divide("members_by_rank", "ranks", {"ranks_of_piece": self._ranks_of_piece})
                shutil.rmtree(Path(of_piece[0]).parent)

    def _put_together(self, part: Part, files: list[str]) -> None:
        """Make collective_members of these files, and add its sums to collective_sums."""
        values = _steps(part)
        self._connection.execute(index_sql("collective_members"), {**values, "collectives": files})
        self._connection.execute(index_sql("collective_sums"), values)

    def _divide(self, text: str, name: str, values: dict[str, Any]) -> None:
        """Add the rows of a text of sql/index to files, by its column `piece`."""
        folder = self._scratch / name
        folder.mkdir(parents=True, exist_ok=True)
        self._connection.execute(
            f"COPY ({index_sql(text)}) TO {quoted(folder)} ({_OPTIONS})", values
        )

    def _files(self, name: str, *pieces: int) -> list[str]:
        folders = (self._scratch / name / f"piece={piece}" for piece in pieces)
        return [str(file) for folder in folders for file in sorted(folder.glob("*.parquet"))]

    def _remove_scratch(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def _steps(part: Part) -> dict[str, int]:
    return {"attempt": part.attempt, "step_min": part.step_min, "step_max": part.step_max}
