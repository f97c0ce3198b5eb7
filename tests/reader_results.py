"""What an import of files wrote, for the tests of readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.imports.importer import import_paths
from trace_hooks.schema import TABLES, SegmentName


class Imported:
    """One import: its run.json, its ranks, its tables."""

    def __init__(self, *paths: Path, into: Path) -> None:
        self._look(import_paths(paths, into))

    @classmethod
    def of(cls, folder: Path) -> Imported:
        """What was imported before."""
        found = cls.__new__(cls)
        found._look(folder)
        return found

    def _look(self, folder: Path) -> None:
        self.folder = folder
        self.info = json.loads((self.folder / "run.json").read_text())
        ranks = [json.loads(path.read_text()) for path in (self.folder / "ranks").iterdir()]
        self.ranks = {info["rank"]: info for info in sorted(ranks, key=lambda info: info["rank"])}
        self.problems: list[str] = self.info["problems"]
        self.guesses: list[str] = self.info["guesses"]

    def table(self, name: str) -> pa.Table:
        """Rows of a table, in the order in which they were written."""
        files = [
            path
            for path in sorted((self.folder / "segments").iterdir())
            if (segment := SegmentName.parse(path.name)) and segment.table == name
        ]
        tables = [pq.read_table(path) for path in files] or [TABLES[name].schema.empty_table()]
        assert all(table.schema.equals(TABLES[name].schema) for table in tables)
        return pa.concat_tables(tables)

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """Some columns of a table, row by row."""
        table = self.table(name)
        return list(zip(*(table[column].to_pylist() for column in columns), strict=True))
