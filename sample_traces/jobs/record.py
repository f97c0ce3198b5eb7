"""Records the runs in sample_traces/recorded/ again: a healthy one and one with a slow rank.

    python -m sample_traces.jobs.record

Each is the real 8-rank job. What it planted is written to run.json under truth; segments are merged
into one file per table; the name of this machine and its process numbers are replaced.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from sample_traces.jobs.faults import Fault
from trace_hooks.schema import TABLES, SegmentName, publish_json, publish_table
from trace_hooks.schema.reading import read_rows

RECORDED = Path(__file__).resolve().parent.parent / "recorded"

HOST = "node0"
"""Stands in the recorded files for the machine they were made on."""

NUM_RANKS, NUM_STEPS = 8, 14

RUNS: dict[str, tuple[str, ...]] = {
    "healthy": (),
    "slow_rank": ("slow-rank=5,x=1.6,from=5",),
}
"""name: faults of the job."""


def record(name: str, faults: Sequence[str], target: Path) -> None:
    """Run the job and put its run folder at `target`, instead of what is there."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "sample_traces.jobs.train_3d", "--runs", scratch]
        command += ["--nproc", str(NUM_RANKS), "--steps", str(NUM_STEPS), "--device", "cpu"]
        for fault in faults:
            command += ["--fault", fault]
        environ = {key: v for key, v in os.environ.items() if not key.startswith("TRACE_HOOKS")}
        subprocess.run(command, check=True, env=environ | {"TRACE_HOOKS_RUN": name})
        made = Path(scratch) / name
        shutil.rmtree(target, ignore_errors=True)
        for folder in ("ranks", "compacted"):
            (target / folder).mkdir(parents=True)
        for table in TABLES:
            merge(table, read_rows(made, table), target)
        for path in sorted((made / "ranks").glob("*.json")):
            info = json.loads(path.read_text(encoding="utf-8"))
            info |= {"host": HOST, "pid": 1000 + info["rank"]}
            publish_json(info, target / "ranks" / path.name)
        info = json.loads((made / "run.json").read_text(encoding="utf-8"))
        info["truth"] = {"faults": [Fault.parse(fault).to_json() for fault in faults]}
        publish_json(info, target / "run.json")


def merge(table: str, rows: pa.Table, target: Path) -> None:
    """Write all rows of a table, if there are any, as one file, ordered by rank, then time."""
    if not rows.num_rows:
        return
    names = rows.schema.names
    by = [name for name in ("rank", "ts_ns", "start_ns", "depth", "step") if name in names]
    rows = rows.sort_by([(name, "ascending") for name in by])
    if "host" in names:
        hosts = pa.array([HOST] * rows.num_rows).dictionary_encode()
        rows = rows.set_column(names.index("host"), rows.schema.field("host"), hosts)
    schema = TABLES[table].schema
    publish_table(rows.cast(schema), target / "compacted" / str(SegmentName(table, 0, 0, 0)))


def main() -> None:
    """Record every run."""
    for name, faults in RUNS.items():
        print(f"recording {name}: {NUM_STEPS} steps on {NUM_RANKS} ranks", flush=True)
        record(name, faults, RECORDED / name)


if __name__ == "__main__":
    main()
