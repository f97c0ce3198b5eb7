"""Rows of a log with the rank and the host that were found for it in the end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.limits import limits
from ingest.readers.base import Sink
from ingest.readers.logs.attribution import Owner
from ingest.readers.logs.line_table import LOCAL, OF_FILE
from ingest.readers.tables.staged_rows import StagedRows
from trace_hooks.schema import UNKNOWN


class PlacedRows(StagedRows):
    """Hands rows of a file on with its rank, its host, its name as it is to be shown, its year."""

    def __init__(self, sink: Sink, owner: Owner, file: str, shift_ns: int) -> None:
        super().__init__(Path())
        self._sink, self._owner, self._file, self._shift_ns = sink, owner, file, shift_ns
        self.hosts: dict[int, str] = {}
        """of ranks that the rows name"""

    def adopt_rows(self, table: str, rank: int, path: Path) -> None:
        """Rows that lie in a file."""
        rows = pq.read_table(path)
        path.unlink()
        rows = _with(rows, "rank", self._ranks(rows.column("rank")))
        rows = _with(rows, "host", self._hosts(rows.column("host")))
        file = pa.array([self._file] * rows.num_rows, pa.string())
        rows = _with(rows, "file", file)
        if self._shift_ns:
            times = rows.column("ts_ns")
            shifted = pc.if_else(pc.less(times, 0), times, pc.add(times, self._shift_ns))
            rows = _with(rows, "ts_ns", shifted)
        self._note_hosts(rows)
        self._sink.add_rows(table, 0, rows)

    def _note_hosts(self, rows: pa.Table) -> None:
        pairs = pa.table([rows.column("rank"), rows.column("host").cast(pa.string())], ["r", "h"])
        for pair in pairs.group_by(["r", "h"]).aggregate([]).to_pylist():
            if pair["r"] >= 0:
                self.hosts[pair["r"]] = self.hosts.get(pair["r"]) or pair["h"]

    def rank(self, rank: int) -> int:
        """The rank of a row that has this one."""
        return int(self._ranks(pa.chunked_array([pa.array([rank], pa.int32())]))[0].as_py())

    def _ranks(self, ranks: pa.ChunkedArray) -> pa.ChunkedArray:
        """With the rank of the file, and of local ranks the global ones."""
        most, first = limits().max_ranks, self._owner.first_rank
        of_file = pc.if_else(pc.equal(ranks, OF_FILE), self._owner.rank, ranks)
        globally = UNKNOWN if first is None else pc.subtract(first + LOCAL, ranks)
        ranks = pc.if_else(pc.less_equal(ranks, LOCAL), globally, of_file)
        return pc.if_else(pc.less(ranks, most), ranks, UNKNOWN)

    def _hosts(self, hosts: pa.ChunkedArray) -> pa.ChunkedArray:
        texts = hosts.cast(pa.string())
        return pc.if_else(pc.equal(texts, ""), self._owner.host, texts)


def _with(rows: pa.Table, name: str, values: pa.ChunkedArray | pa.Array) -> pa.Table:
    """The table with other values in a column, of its type."""
    index = rows.schema.get_field_index(name)
    field = rows.schema.field(index)
    if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return rows.set_column(index, field, values.cast(field.type))
