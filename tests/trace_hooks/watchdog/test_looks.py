"""What is written of ranks that make no progress: of rings, and of a real job that hangs."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis.detectors import stuck
from diagnosis.stuck.causes import MISSING_MS
from ingest.run import open_run
from tests.trace_hooks.processes import begin, rows
from tests.waiting import wait_until
from trace_hooks.recording.flight_ring import (
    CAPACITY,
    END_UNKNOWN,
    NOT_ENDED,
    Ring,
    RingRecord,
    read_header,
    read_ring,
)
from trace_hooks.watchdog.looks import NEWEST_OF_GROUP, newest

HANGS = """
import time, torch, torch.distributed as dist
import trace_hooks as th
dist.init_process_group("gloo")
tracer = th.start(run="hangs")

def forgets_to_come():
    time.sleep(300)

for step in range(12):
    with tracer.step(step):
        time.sleep(0.05)
        if step == 11 and dist.get_rank() == 1:
            forgets_to_come()
        dist.all_reduce(torch.ones(10))
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def write(ring: Ring, seq: int, group_id: int = 7) -> int:
    return ring.write(group_id, seq, "all_reduce", "float8_e4m3fnuz", 8, -1, -1, 3, 100 + seq)


def test_a_record_notes_its_end(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "1.ring", 0, 0)
    numbers = [write(ring, seq) for seq in range(3)]
    ring.ended(numbers[0], 555)
    ring.ended(numbers[1], END_UNKNOWN)
    ring.beat(1, 3, "step", "all_reduce")
    _, records = read_ring(ring.path)
    assert [record.end_ns for record in records] == [555, END_UNKNOWN, NOT_ENDED]
    assert records[0].dtype == "float8_e4m3fnuz"
    assert read_header(ring.path.read_bytes()).num_entered == 3


def test_an_end_that_comes_late_does_not_hit_the_record_that_took_its_place(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "1.ring", 0, 0)
    first = write(ring, 0)
    for seq in range(1, CAPACITY + 1):
        write(ring, seq)
    ring.ended(first, 555)
    assert {record.end_ns for record in read_ring(ring.path)[1]} == {NOT_ENDED}


def test_the_newest_of_each_group_and_what_has_not_ended_is_kept() -> None:
    def record(number: int, group_id: int, end_ns: int) -> RingRecord:
        return RingRecord(number, number, group_id, number, 8, 3, -1, -1, "a", "", end_ns)

    records = [record(n, n % 2, NOT_ENDED if n == 1 else 5) for n in range(1, 21)]
    kept = newest(records)
    assert [one.number for one in kept] == [1, 15, 16, 17, 18, 19, 20]
    assert len([one for one in kept if one.group_id == 0]) == NEWEST_OF_GROUP


@pytest.mark.long
def test_a_real_job_that_waits_for_a_rank(tmp_path: Path) -> None:
    job = begin(tmp_path, HANGS, module=TORCHRUN, TRACE_HOOKS_SOURCES="collectives")
    try:
        seen = lambda: [r for r in rows(tmp_path, "looks") if r["rank"] == 1 and r["stack"]]  # noqa: E731
        wait_until(lambda: any(r["quiet_ns"] > MISSING_MS * 1e6 for r in seen()))
        with open_run(tmp_path / "runs" / "hangs") as run:
            diagnosis = diagnose_run(run)
    finally:
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=60)
    # the first steps of a job on a busy machine may be uneven for other reasons
    (finding,) = [one for one in diagnosis.findings if one.kind in stuck.KINDS]
    assert (finding.kind, [place.rank for place in finding.culprits]) == ("missing_rank", [1])
    assert "Rank 0 waits for rank 1 in all_reduce 12" in finding.text
    assert "forgets_to_come" in finding.text
