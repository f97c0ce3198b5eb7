"""SIGKILL at random moments: what was published is whole, and the ring has the rest."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.trace_hooks.processes import begin
from tests.waiting import wait_until
from trace_hooks.recording.flight_ring import read_ring
from trace_hooks.schema import SegmentName

ROUNDS = int(os.environ.get("KILL_ROUNDS", "2"))

BUSY = """
import trace_hooks as th
from trace_hooks.recording.clock import now
tracer = th.start(run="busy")
print("ready", flush=True)
ring, seq = tracer.context.rank_state.ring, 0
while True:
    with tracer.step():
        for _ in range(200):
            seq += 1
            ring.write(1, seq, "all_reduce", "float32", 4, -1, -1, 0, now())
            with tracer.span("work"):
                pass
"""


@pytest.mark.kill
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_killed_rank_leaves_whole_segments_and_a_ring(tmp_path: Path, number: int) -> None:
    process = begin(tmp_path, BUSY, TRACE_HOOKS_COLLECTOR="0")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    wait_until(lambda: list(tmp_path.glob("runs/busy/segments/steps-*.parquet")))
    time.sleep(random.Random(number).uniform(0.0, 1.5))
    process.kill()
    process.communicate()

    run = tmp_path / "runs" / "busy"
    names = [path.name for path in (run / "segments").glob("*.parquet")]
    segments = [name for name in names if not name.startswith(".")]
    assert segments
    numbers: dict[str, list[int]] = {}
    steps: list[int] = []
    for name in sorted(segments):
        parsed = SegmentName.parse(name)
        assert parsed is not None
        table = pq.read_table(run / "segments" / name)
        assert table.num_rows > 0
        if parsed.number < 50_000_000:  # beyond: the watchdog's
            numbers.setdefault(parsed.table, []).append(parsed.number)
        if parsed.table == "steps":
            steps += table.column("step").to_pylist()
    assert all(found == list(range(len(found))) for found in numbers.values())  # no gap
    assert steps == list(range(len(steps)))  # nothing lost in between, nothing twice

    ring = wait_until(lambda: (run / "rings" / "0000-00000.ring").exists() and run / "rings")
    header, records = read_ring(ring / "0000-00000.ring")
    assert (header.run, header.attempt, header.rank, header.ended) == ("busy", 0, 0, False)
    seqs = [record.seq for record in records]
    assert seqs == list(range(seqs[0], seqs[-1] + 1))
    assert seqs[-1] >= 200 * len(steps)  # it knows at least what was published
    wait_until(lambda: list((run / "segments").glob("marks-0000-00000-5*.parquet")))
