"""Rows of collectives that are over, and who is in a communicator."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ingest.readers.tables.finished_collectives import (
    Communicator,
    Done,
    Members,
    write_collectives,
)
from ingest.run_folder.run_writer import RunWriter


def test_rows_come_in_the_order_of_their_begin(tmp_path: Path) -> None:
    tables: dict[str, pa.Table] = {}

    class Sink(RunWriter):
        def add_rows(self, table: str, rank: int, rows: pa.Table) -> None:
            tables[table] = rows

    late = Done(7, 1, "all_reduce", "float32", 64, 20, 25, 30)
    early = Done(7, 0, "all_reduce", "float32", 64, 1, 5, 9)
    comm = Communicator(7, "g", "dp", (0, 1))
    write_collectives(Sink(tmp_path), 0, "test", [late, early], [comm])
    assert tables["collectives"].column("seq").to_pylist() == [0, 1]
    assert set(tables["collectives"].column("state").to_pylist()) == {"completed"}
    assert tables["groups"].column("ranks").to_pylist() == [[0, 1]]


def test_members_are_known_once_all_were_seen() -> None:
    members = Members(world_size=4)
    members.see("tp", 2, 1, 3)
    assert members.of("tp") == ()
    members.see("tp", 2, 0, 1)
    assert members.of("tp") == (1, 3)


def test_a_communicator_as_large_as_the_job_holds_all() -> None:
    members = Members(world_size=4)
    for rank in (0, 2):
        members.see("all", 4, rank, rank)
    assert members.of("all") == (0, 1, 2, 3)
