"""Puts the collectives of some steps together with all their members, in bounded memory.

Members can be of any ranks. Where there are too many rows at once, they are first divided on disk
by group and number, so that all members of an instance come together; put together, they are
divided by rank, as the rollups want them.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.index import pass_plan
from ingest.index.pass_plan import BAND, Part, Tile, rank_extent
from ingest.query.connection import quoted
from ingest.query.index_sql import index_sql
from ingest.query.manifest import Connection

_DIVIDED = "FORMAT parquet, COMPRESSION zstd, PARTITION_BY (piece), APPEND"
_BYTES_DIVIDED = 60
"""On disk, of a row of collectives: some 30 divided by instance, and as many divided by rank."""
_READ = "FROM read_parquet($files, hive_partitioning = false)"


class CollectivePass:
    """A context manager: outside of it nothing is on disk. The lock of the index must be held.

    Makes no tables: what a transaction drops takes memory until it ends.
    """

    def __init__(self, connection: Connection, index_folder: Path) -> None:
        self._connection = connection
        self._scratch = index_folder / f".collectives-{os.getpid()}.tmp"
        self._is_divided = False
        self._ranks_of_piece = BAND
        self._shown: tuple[int, int] | None = None
        self._members: pa.Table | None = None

    def __enter__(self) -> CollectivePass:
        return self

    def __exit__(self, *error: object) -> None:
        self._remove_scratch()

    def load(self, part: Part, files: list[str]) -> None:
        """Fill collective_rollup with the steps of a part; `files` have its collectives.

        Runs in the caller's transaction. Raises duckdb.Error or OSError where a file cannot be read
        or the disk is full.
        """
        num_pieces = math.ceil(part.num_collectives / pass_plan.COLLECTIVES_AT_ONCE)
        self._is_divided = bool(files) and num_pieces > 1
        self._shown = self._members = None
        if self._is_divided:
            self._remove_scratch()
            self._require_room(part.num_collectives)
            self._put_pieces_together(part, files, num_pieces)
        elif files:
            self._put_together(part, files)
            sums = index_sql("collective_sums")
            self._execute(f"INSERT INTO collective_rollup {sums}", _steps(part))

    def show(self, tile: Tile) -> bool:
        """Have `ask` read the members of a tile, if not of more; False: there are none."""
        pieces = tile.rank_min // self._ranks_of_piece, tile.rank_max // self._ranks_of_piece
        if self._is_divided and pieces != self._shown:
            files = self._files("ranks", *range(pieces[0], pieces[1] + 1))
            self._members = self.ask(_READ, {"files": files}) if files else None
            self._shown = pieces
        return self._members is not None

    def ask(self, text: str, values: dict[str, Any]) -> pa.Table:
        """Rows of a SELECT over collective_members; of a part in pieces members_by_rank has its
        columns.
        """
        collective_members = self._members  # noqa: F841 - DuckDB finds it by its name
        return self._connection.sql(text, params=values).to_arrow_table()

    def _execute(self, text: str, values: dict[str, Any]) -> None:
        collective_members = self._members  # noqa: F841 - DuckDB finds it by its name
        self._connection.execute(text, values)

    def _require_room(self, num_collectives: float) -> None:
        """The job that is indexed may write to the same disk."""
        folder = self._scratch.parent
        if shutil.disk_usage(folder).free < _BYTES_DIVIDED * num_collectives:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))

    def _put_pieces_together(self, part: Part, files: list[str], num_pieces: int) -> None:
        values = {"collectives": files, "num_pieces": num_pieces, **_steps(part)}
        self._divide("collectives_by_instance", "instances", values)
        first, last = rank_extent(self._connection, part.attempt)
        bands = last // BAND - first // BAND + 1
        self._ranks_of_piece = math.ceil(bands / num_pieces) * BAND
        sums = self._scratch / "sums"
        sums.mkdir()
        for piece in range(num_pieces):
            of_piece = self._files("instances", piece)
            if of_piece:
                self._put_together(part, of_piece)
                self._divide("members_by_rank", "ranks", {"ranks_of_piece": self._ranks_of_piece})
                of_sums = self.ask(index_sql("collective_sums"), _steps(part))
                pq.write_table(of_sums, sums / f"{piece}.parquet")
                shutil.rmtree(Path(of_piece[0]).parent)
        files = [str(file) for file in sorted(sums.iterdir())]
        if files:
            self._connection.execute(index_sql("collective_rollup"), {"sums": files})

    def _put_together(self, part: Part, files: list[str]) -> None:
        values = {**_steps(part), "collectives": files}
        self._members = self.ask(index_sql("collective_members"), values)

    def _divide(self, text: str, name: str, values: dict[str, Any]) -> None:
        """Add the rows of a text of sql/index to files, by its column `piece`."""
        folder = self._scratch / name
        folder.mkdir(parents=True, exist_ok=True)
        self._execute(f"COPY ({index_sql(text)}) TO {quoted(folder)} ({_DIVIDED})", values)

    def _files(self, name: str, *pieces: int) -> list[str]:
        folders = (self._scratch / name / f"piece={piece}" for piece in pieces)
        return [str(file) for folder in folders for file in sorted(folder.glob("*.parquet"))]

    def _remove_scratch(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def _steps(part: Part) -> dict[str, int]:
    return {"attempt": part.attempt, "step_min": part.step_min, "step_max": part.step_max}
