"""Collectives that only the Flight Recorder saw."""

from __future__ import annotations

import time

import pytest
import torch.distributed as dist
from torch.distributed import distributed_c10d

from tests.trace_hooks.sources.communication.one_rank import all_reduce
from trace_hooks.recording import guard
from trace_hooks.recording.clock import now
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.communication import flight_dump
from trace_hooks.sources.communication.collectives import Collectives
from trace_hooks.sources.communication.flight_recorder import FlightRecorder

pytestmark = pytest.mark.usefixtures("one_rank")


def read_until(flight: FlightRecorder, rows: int, op: str = "") -> None:
    """Poll until that many rows, of `op` where it is given, are there; gloo reports the end of a
    collective a moment later.
    """
    deadline = time.monotonic() + 60
    collectives = flight.recorder.collectives
    while sum(op in ("", row.op) for row in collectives) < rows and time.monotonic() < deadline:
        flight._not_before_ns = 0
        flight.poll()


def test_unseen_collectives_follow_from_the_flight_recorder(
    recorder: Recorder, flight: FlightRecorder
) -> None:
    recorder.rank_state.step = 4
    flight.step_begin()
    all_reduce(3)
    read_until(flight, rows=3)
    rows = recorder.collectives
    assert [(row.op, row.num_bytes, row.step, row.source) for row in rows] == [
        ("all_reduce", 16, 4, "flight_recorder")
    ] * 3
    seqs = sorted(row.seq for row in rows)  # gloo may report the end of a later one first
    assert seqs == list(range(seqs[0], seqs[0] + 3))
    assert [row.end_ns for row in rows] == [-1] * 3


def test_a_group_is_read_before_it_is_shut_down(recorder: Recorder, flight: FlightRecorder) -> None:
    group = dist.new_group([0])
    all_reduce(group=group)
    read_until(flight, rows=1)
    all_reduce(2, group=group)
    time.sleep(0.1)  # gloo reports a moment later that a collective is over
    assert len(recorder.collectives) == 1  # the next look is not due
    dist.destroy_process_group(group)
    rows = recorder.collectives
    assert [(row.op, row.seq - rows[0].seq) for row in rows] == [
        ("all_reduce", 0),
        ("all_reduce", 1),
        ("all_reduce", 2),
    ]


def test_a_failing_look_lets_the_shutdown_go_on(
    flight: FlightRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = dist.new_group([0])
    all_reduce(group=group)
    monkeypatch.setattr(flight_dump, "dump", lambda recorder: b'"record_id":9,no JSON')
    dist.destroy_process_group(group)
    assert group not in distributed_c10d._world.pg_map
    assert guard.account.errors.pop("flight_recorder.shutdown") == 1
    guard.disabled.discard("flight_recorder.shutdown")


def test_without_a_gap_nothing_is_read(
    wrapped: Collectives,
    flight: FlightRecorder,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_dump(recorder: str) -> bytes:
        raise AssertionError("read without need")

    monkeypatch.setattr(flight_dump, "dump", no_dump)
    all_reduce(3)
    flight.poll()
    assert [row.source for row in recorder.collectives] == ["wrapper"] * 3


def test_reading_keeps_to_its_share_of_the_time(
    recorder: Recorder, flight: FlightRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_reduce()
    read_until(flight, rows=1)
    assert flight._not_before_ns > now()
    reads = []
    monkeypatch.setattr(flight_dump, "dump", lambda recorder: reads.append(1) or b"")
    flight._not_before_ns = now() + 10**9
    all_reduce()
    flight.poll()
    assert reads == []
    monkeypatch.undo()
    flight.uninstall()  # the last look does not wait
    assert len(recorder.collectives) == 2


def test_overwritten_entries_are_counted_as_dropped(
    recorder: Recorder, flight: FlightRecorder
) -> None:
    all_reduce(3)
    newest = flight_dump.entries_from(flight_dump.dump(), 0)[-1]["record_id"]
    flight._next_record[flight_dump.SHARED] = newest  # as if the two before had been overwritten
    read_until(flight, rows=1)
    assert len(recorder.collectives) == 1
    assert recorder.dropped == 2


def test_training_that_notes_a_gap_does_not_disturb_the_drain_thread(
    recorder: Recorder, flight: FlightRecorder
) -> None:
    (group,) = flight._log.groups.scan()

    class Newest(int):
        """A look at it lets the training thread go on."""

        def __gt__(self, count: int) -> bool:
            group.unseen[group.claimed] = group.claimed = group.claimed + 1
            return int(self) > count

    group.unseen.update({-2: -2, -1: -1})
    flight._forget_overwritten(group, Newest(0))
    assert recorder.dropped == 2
    assert not {-2, -1} & set(group.unseen)
