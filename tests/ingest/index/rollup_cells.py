"""What the index knows of each step of each rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ingest.index.indexer import Indexer


def cells(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """Rows of step_rollup by (rank, step)."""
    with Indexer(folder) as indexer:
        indexer.refresh()
        found = indexer.database.connection.sql("SELECT * FROM step_rollup ORDER BY rank, step")
        rows = found.to_arrow_table().to_pylist()
    return {(row["rank"], row["step"]): row for row in rows}


def us(row: dict[str, Any], *names: str) -> list[float | None]:
    """Some of its times in us; None for unknown."""
    return [None if row[f"{name}_ns"] is None else row[f"{name}_ns"] / 1e3 for name in names]
