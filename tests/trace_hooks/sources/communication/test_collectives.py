"""Communication sources on one real gloo rank: numbering, gaps, batches, device stamps."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from trace_hooks.recording import guard
from trace_hooks.recording.clock import now
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.communication import collectives, flight_dump
from trace_hooks.sources.communication.collective_log import Payload, log_of
from trace_hooks.sources.communication.collectives import Collectives
from trace_hooks.sources.communication.flight_recorder import FlightRecorder
from trace_hooks.sources.communication.functional import FunctionalCollectives
from trace_hooks.sources.communication.process_groups import Groups, group_id
from trace_hooks.sources.context import SourceContext


@pytest.fixture(scope="module", autouse=True)
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = tmp_path_factory.mktemp("store") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def installed(kind: Any, recorder: Recorder) -> Iterator[Any]:
    source = kind(SourceContext(recorder, None))
    source.install()
    yield source
    source.uninstall()


@pytest.fixture
def wrapped(recorder: Recorder) -> Iterator[Collectives]:
    yield from installed(Collectives, recorder)


@pytest.fixture
def flight(recorder: Recorder) -> Iterator[FlightRecorder]:
    yield from installed(FlightRecorder, recorder)


def all_reduce(count: int = 1, **kwargs: Any) -> Any:
    for _ in range(count):
        work = dist.all_reduce(torch.ones(4), **kwargs)
    return work


def read_until(flight: FlightRecorder, rows: int) -> None:
    """Poll until that many rows are there; gloo says a moment later that a collective is over."""
    deadline = time.monotonic() + 5
    while len(flight.recorder.collectives) < rows and time.monotonic() < deadline:
        flight._not_before_ns = 0
        flight.poll()


def test_group_ids_depend_on_order_and_ordinal_only() -> None:
    ids = {group_id((0, 1), 0), group_id((1, 0), 0), group_id((0, 1), 1), group_id((0, 11), 0)}
    assert len(ids) == 4
    assert all(0 < number < 2**63 for number in ids)
    assert group_id((0, 1), 0) == 8018046534862884534  # stands in files: never change it


def test_only_new_entries_of_a_dump_are_parsed() -> None:
    all_reduce(5)
    data = flight_dump.dump()
    everything = json.loads(data)["entries"]
    first = everything[-2]["record_id"]
    assert flight_dump.entries_from(data, 0) == everything
    assert flight_dump.entries_from(data, first) == everything[-2:]
    assert len(flight_dump._tail(data, first)) < len(data) / 2
    assert flight_dump.entries_from(data, first + 2) == []
    assert flight_dump.entries_from(b"", 0) == []


def test_a_dump_laid_out_otherwise_is_parsed_whole() -> None:
    entry = {"record_id": 3, "collective_seq_id": 1}
    data = json.dumps({"entries": [{"record_id": 2}, entry]}).encode().replace(b": ", b":")
    assert flight_dump.entries_from(data, 3) == [entry]


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
    seqs = sorted(row.seq for row in rows)  # gloo may tell of a later one that it is over first
    assert seqs == list(range(seqs[0], seqs[0] + 3))
    assert [row.end_ns for row in rows] == [-1] * 3


def test_a_group_is_read_before_it_is_shut_down(recorder: Recorder, flight: FlightRecorder) -> None:
    group = dist.new_group([0])
    all_reduce(group=group)
    read_until(flight, rows=1)
    all_reduce(2, group=group)
    time.sleep(0.1)  # gloo says a moment later that a collective is over
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


def test_numbers_go_on_where_the_group_stands(wrapped: Collectives, recorder: Recorder) -> None:
    all_reduce(2)
    last = recorder.collectives[-1].seq
    wrapped.uninstall()
    all_reduce(3)
    later = Recorder()
    second = Collectives(SourceContext(later, None))  # type: ignore[arg-type]
    second.install()
    all_reduce()
    second.uninstall()
    assert later.collectives[-1].seq == last + 4


def test_a_second_wait_adds_nothing(wrapped: Collectives, recorder: Recorder) -> None:
    work = all_reduce(async_op=True)
    assert recorder.collectives == []
    work.wait()
    work.wait()
    assert [row.state for row in recorder.collectives] == ["completed"]


def test_works_are_not_kept_alive(wrapped: Collectives, recorder: Recorder) -> None:
    all_reduce(async_op=True)
    gc.collect()
    assert [(row.state, row.end_ns) for row in recorder.collectives] == [("started", -1)]


def test_a_coalesced_batch_ends_with_its_one_work(wrapped: Collectives, recorder: Recorder) -> None:
    """As NCCL batches messages; gloo cannot, so the two calls around the batch are stood in for."""
    group = dist.group.WORLD
    last = []

    def end_batch(pg: Any, device: Any) -> Any:
        return last[0]

    start = collectives._start_coalescing(wrapped, lambda pg, device: None)
    end = collectives._end_coalescing(wrapped, end_batch)
    start(group, None)
    works = [all_reduce(async_op=True), all_reduce(async_op=True)]
    works[0].wait()
    assert recorder.collectives == []
    last.append(works[1])
    assert end(group, None) is works[1]
    works[1].wait()
    assert [row.state for row in recorder.collectives] == ["completed"] * 2
    all_reduce()
    assert len(recorder.collectives) == 3


class Stamps:
    """A device clock whose stamps become known later."""

    track = "cuda:0"

    def __init__(self) -> None:
        self.given, self.reached = 0, 0
        self.released: list[int] = []

    def mark(self) -> int:
        self.given += 1
        return self.given

    def resolve(self, event: int) -> int | None:
        return event * 1_000 if event <= self.reached else None

    def release(self, event: int) -> None:
        self.released.append(event)


def test_accelerator_times_follow_when_the_stamps_resolve(recorder: Recorder) -> None:
    recorder.device_clock = clock = Stamps()  # type: ignore[assignment]
    log = log_of(recorder)
    group = log.groups.of(dist.group.WORLD)
    done = log.begin(group, "all_reduce", Payload(8, "float32", True), "wrapper")
    log.issued(done)
    log.finish(done, "completed", 99)
    log.resolve_device_times()
    assert recorder.collectives == []
    clock.reached = 2
    log.resolve_device_times()
    assert [(row.start_ns, row.end_ns) for row in recorder.collectives] == [(1_000, 2_000)]
    assert clock.released == [1, 2]
    late = log.begin(group, "all_reduce", Payload(8, "float32", True), "wrapper")
    log.issued(late)
    log.finish(late, "completed", 99)
    log.give_up_device_times()
    assert (recorder.collectives[-1].state, recorder.collectives[-1].end_ns) == ("started", -1)


def test_python_subclasses_do_not_recurse(wrapped: Collectives) -> None:
    class OwnWork(dist.Work):
        pass

    class OwnGroup(dist.ProcessGroup):
        pass

    with pytest.raises(RuntimeError, match="timed out"):
        OwnWork().wait(timedelta(milliseconds=1))
    with pytest.raises(RuntimeError, match="backend"):
        OwnGroup(0, 1).allreduce([torch.ones(1)])


def test_packets_keep_their_identity_and_hash(recorder: Recorder) -> None:
    packet = torch.ops._c10d_functional.all_reduce
    known, name, overload = {packet: 1}, str(packet), packet.default
    for _ in installed(FunctionalCollectives, recorder):
        assert torch.ops._c10d_functional.all_reduce is packet
        assert known[packet] == 1
        assert str(packet) == name
        assert packet.default is overload


def test_no_distributed_build_no_hooks(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_available", lambda: False)
    before = vars(dist.Work)["wait"]
    for kind in (Collectives, FunctionalCollectives, FlightRecorder):
        for source in installed(kind, recorder):
            source.step_begin()
            source.poll()
    assert vars(dist.Work)["wait"] is before


def test_two_collectives_in_place_on_one_tensor_are_two_rows(recorder: Recorder) -> None:
    operators, group = torch.ops._c10d_functional, dist.group.WORLD.group_name
    for _ in installed(FunctionalCollectives, recorder):
        tensor = torch.ones(4)
        operators.all_reduce_(tensor, "sum", group)
        second = operators.all_reduce_(tensor, "sum", group)
        operators.wait_tensor(second)
    assert [row.state for row in recorder.collectives] == ["started", "completed"]
    assert recorder.collectives[0].seq + 1 == recorder.collectives[1].seq


def test_a_group_that_another_thread_is_just_making_is_met_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch enters a new group's name before its ranks."""
    half_made = SimpleNamespace(pg_names={object(): "new"}, pg_group_ranks={})
    monkeypatch.setattr(distributed_c10d, "_world", half_made)
    assert Groups(Recorder()).scan() == []


def test_a_lock_the_training_thread_was_interrupted_in_does_not_stop_the_drain_thread() -> None:
    groups = Groups(Recorder())
    answers: list[Any] = []
    with groups._lock:
        drain = threading.Thread(target=lambda: answers.append(groups.scan()))
        drain.start()
        drain.join(10)
    assert answers == [[]]
