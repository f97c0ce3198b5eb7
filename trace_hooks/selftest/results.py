"""Writes what was measured as a run folder: rank 0 alone, as hosts may not share a file system."""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from trace_hooks.job.run_files import run_info
from trace_hooks.schema import (
    BEFORE_FIRST_STEP,
    SCHEMA_VERSION,
    TABLES,
    RankInfo,
    SegmentName,
    publish_json,
    publish_table,
    rank_file_name,
)

SOURCE = "selftest"
Row = dict[str, Any]


def new_name() -> str:
    """Name of a run folder."""
    return f"selftest-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


class RunFolder:
    """The folder of one self-test. Raises OSError where it cannot be written."""

    def __init__(self, folder: Path, infos: Sequence[Mapping[str, Any]], about: str) -> None:
        """`infos`: what each rank reported of itself; `about`: one sentence on the options."""
        self.path = folder
        self._infos = infos
        self._created_ns = time.time_ns()
        for name in ("segments", "ranks"):
            (folder / name).mkdir(parents=True)
        info = run_info(folder.name, self._created_ns, None, [])
        info["source"] = SOURCE
        info["provenance"] = [about]
        publish_json(info, folder / "run.json")

    def write(self, rows: Sequence[Row], notes: Sequence[tuple[str, str]]) -> None:
        """Rows of selftests, and (kind, text) of marks."""
        of_rank: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            of_rank[row["rank"]].append(row)
        for rank, own in of_rank.items():
            self._publish("selftests", rank, own)
        marks = [
            {"rank": 0, "ts_ns": time.time_ns(), "kind": kind, "text": text, "args": None}
            for kind, text in notes
        ]
        if marks:
            self._publish("marks", 0, marks)

    def end(self, failed: Mapping[int, str]) -> None:
        """Write the files of the ranks. `failed`: ranks at fault, and how."""
        for rank, info in enumerate(self._infos):
            status = "failed" if rank in failed else "finished"
            whole = RankInfo(
                schema=SCHEMA_VERSION,
                attempt=0,
                rank=rank,
                world_size=len(self._infos),
                host=info["host"],
                pid=info["pid"],
                local_rank=info["local_rank"],
                device=info["device"],
                device_uuid=info["uuid"],
                started_ns=info["started_ns"],
                layout=None,
                coords=None,
                end={"ts_ns": time.time_ns(), "status": status, "error": failed.get(rank)},
                hooks={},
            )
            publish_json(whole, self.path / "ranks" / rank_file_name(0, rank))

    def _publish(self, table: str, rank: int, rows: Sequence[Row]) -> None:
        where = {"attempt": 0, "step": BEFORE_FIRST_STEP}
        full = pa.Table.from_pylist([{**where, **row} for row in rows], TABLES[table].schema)
        publish_table(full, self.path / "segments" / str(SegmentName(table, 0, rank, 0)))
