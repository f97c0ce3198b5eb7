"""Bundles: one file with the new segments of all ranks of a host, as its collector publishes them.

segments/bundle-ATTEMPT-RANK-NUMBER.zip, named after the lowest of the ranks: a ZIP archive whose
members are whole segments, stored as they are. The indexer puts each of them next to the bundle
under its name, so that unpacking twice changes nothing, and removes the bundle.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from trace_hooks.schema.files import SegmentName
from trace_hooks.schema.publishing import parquet_bytes

RANK_BAND = 64
"""Ranks whose segments are merged with one another: a segment of several ranks keeps within."""

_NAME = re.compile(r"bundle-(\d{4,})-(\d{5,})-(\d{8,})\.zip")


@dataclass(frozen=True)
class BundleName:
    """File name of one bundle; `number`: Unix ns of its publication, made unique."""

    attempt: int
    rank: int
    number: int

    def __str__(self) -> str:
        return f"bundle-{self.attempt:04d}-{self.rank:05d}-{self.number:08d}.zip"

    @classmethod
    def parse(cls, name: str) -> BundleName | None:
        """Bundle a file name stands for; None for anything else."""
        match = _NAME.fullmatch(name)
        return cls(int(match[1]), int(match[2]), int(match[3])) if match else None


def write_bundle(file: IO[bytes], name: BundleName, tables: Mapping[str, pa.Table]) -> int:
    """Write tables of some ranks, each with the schema's columns, as the content of a bundle.

    Returns the number of its segments. Raises OSError and pa.ArrowException.
    """
    number = name.number
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for table, rows in tables.items():
            for part in _by_band(rows):
                segment = SegmentName(table, name.attempt, name.rank, number)
                archive.writestr(str(segment), parquet_bytes(part))
                number += 1
    return number - name.number


def _by_band(rows: pa.Table) -> list[pa.Table]:
    """The rows of each band of ranks; rows of the host itself have rank -1 and a band of theirs."""
    bands = rows.column("rank").to_numpy() // RANK_BAND
    found = sorted(set(bands.tolist()))
    return [rows] if len(found) == 1 else [rows.filter(pa.array(bands == band)) for band in found]
