"""Reads the rows of a run folder as its job wrote them, without an index: segments and bundles.

For scripts where nothing else is installed. Once a server or `rankscope index` has merged files,
ask `rankscope query` instead.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trace_hooks.schema.bundles import BundleName
from trace_hooks.schema.files import SegmentName
from trace_hooks.schema.tables import TABLES

_BY_RANK = [("attempt", "ascending"), ("rank", "ascending")]


def read_rows(run_folder: Path, table: str) -> pa.Table:
    """All rows of a table, rank by rank, each in the order in which it published them.

    A row comes once, also while an indexer unpacks bundles. Raises KeyError for a table that does
    not exist, and OSError, pa.ArrowException or zipfile.BadZipFile where a file cannot be read.
    """
    found = dict(_bundled(run_folder / "segments", table))  # first: a bundle that is unpacked goes
    for path in (run_folder / "segments").glob(f"{table}-*.parquet"):
        name = SegmentName.parse(path.name)
        if name is not None and name.table == table:
            found[name] = pq.ParquetFile(path).read()
    parts = [TABLES[table].schema.empty_table()]
    parts += [found[name] for name in sorted(found, key=lambda name: name.number)]
    return pa.concat_tables(parts, promote_options="default").unify_dictionaries().sort_by(_BY_RANK)


def _bundled(folder: Path, table: str) -> Iterator[tuple[SegmentName, pa.Table]]:
    """The segments of a table that are in bundles."""
    for path in folder.glob("bundle-*.zip"):
        if BundleName.parse(path.name) is None:
            continue
        with suppress(FileNotFoundError), zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                name = SegmentName.parse(member)
                if name is not None and name.table == table:
                    yield name, pq.ParquetFile(pa.py_buffer(archive.read(member))).read()
