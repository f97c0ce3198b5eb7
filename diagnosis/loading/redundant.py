"""Batches that several ranks read, though one would do, or though each should have its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

QUESTION = "redundant_reads"

LEAST = 1.5
"""Times that a batch is read before it is worth a sentence."""

_GROUPS = {"tp": "tensor-parallel group", "cp": "context-parallel group", "pp": "pipeline"}


def sentences(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """One for each axis whose ranks read the same batches; `rows` of redundant_reads."""
    return tuple(_sentence(row) for row in rows if row["axis"] != "job" and row["factor"] >= LEAST)


def _sentence(row: Mapping[str, Any]) -> str:
    if row["axis"] == "dp":
        return (
            f"{row['peers']} data-parallel replicas read the same batches, so that they train on "
            "the same samples: does the sampler divide the samples among the replicas?"
        )
    read = ""
    if (row["read_mb"] or 0) >= 1:
        read = f" ({row['read_mb']:,.0f} MB instead of {row['unique_mb']:,.0f} MB)"
    return (
        f"{row['peers']} ranks of each {_GROUPS[row['axis']]} read the same batches: "
        f"{row['factor']:.1f} times the bytes{read}; let one read and broadcast."
    )
