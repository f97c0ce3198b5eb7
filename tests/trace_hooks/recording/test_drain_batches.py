"""Spans of a device from its stamps to rows: held back, in order, bounded. On a fake device."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trace_hooks.recording.cuda.simulated_device import NEVER_NS, SimulatedDevice
from trace_hooks.recording import drain_batches as batches_module
from trace_hooks.recording.clock import Anchor
from trace_hooks.recording.cuda.cuda_clock import CudaClock
from trace_hooks.recording.drain_batches import Batches
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.communication.collective_log import CollectiveLog, Payload
from trace_hooks.sources.communication.process_groups import Group


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimulatedDevice:
    monkeypatch.setattr(batches_module, "LAST_WAIT_S", 0.05)
    return SimulatedDevice(monkeypatch)


@pytest.fixture
def recorder(device: SimulatedDevice) -> Recorder:
    return Recorder(CudaClock(device, "cuda:0"))


@pytest.fixture
def batches(recorder: Recorder) -> Batches:
    return Batches(recorder, Anchor(offset_ns=0))


def span(
    recorder: Recorder,
    device: SimulatedDevice,
    name: str,
    ns: int,
    stream: int = 100,
    kind: str = "forward",
) -> None:
    """Work of this many ns on a stream, inside a span."""
    device.current = stream
    mark = recorder.open()
    device.work(ns)
    recorder.close(recorder.site(name, kind), mark)


def taken(batches: Batches, last: bool = False) -> list[dict[str, Any]]:
    batches.collect(last)
    tables = batches.take().get("spans", [])
    return [row for table in tables for row in table.to_pylist()]


def test_spans_come_when_the_device_has_ended_them(
    device: SimulatedDevice, recorder: Recorder, batches: Batches
) -> None:
    span(recorder, device, "a", 10_000_000)
    span(recorder, device, "b", 10_000_000)
    span(recorder, device, "load", 1, kind="data_wait")  # the host's, whatever the device does
    assert [row["name"] for row in taken(batches)] == ["load"]
    device.host_ns += 15_000_000
    (first,) = taken(batches)
    device.host_ns += 15_000_000
    (second,) = taken(batches)
    assert [(row["name"], row["track"]) for row in (first, second)] == [
        ("a", "cuda:0"),
        ("b", "cuda:0"),
    ]
    assert first["dur_ns"] == pytest.approx(10_000_000, abs=1_000)
    assert second["ts_ns"] == pytest.approx(first["ts_ns"] + 10_000_000, abs=1_000)
    assert recorder.dropped == 0


def test_a_stream_that_never_ends_keeps_no_other_waiting(
    device: SimulatedDevice, recorder: Recorder, batches: Batches
) -> None:
    for _ in range(2_000):
        span(recorder, device, "stuck", NEVER_NS // 4, stream=7)
    for number in range(10):
        span(recorder, device, f"goes on {number}", 1_000)
    device.host_ns += 1_000_000
    queries = device.queries
    taken_rows = taken(batches)
    assert [row["name"] for row in taken_rows] == [f"goes on {number}" for number in range(10)]
    assert device.queries - queries < 50  # it does not ask for each of those that wait
    assert taken(batches, last=True) == []
    assert recorder.dropped == 2_000


def test_few_of_many_ended_spans_are_asked_for(
    device: SimulatedDevice, recorder: Recorder, batches: Batches
) -> None:
    for number in range(1_000):
        span(recorder, device, f"span {number}", 1_000)
        device.host_ns += 1_000
    device.work(NEVER_NS // 4)
    span(recorder, device, "not ended", 1_000)
    device.host_ns += 10_000_000
    queries = device.queries
    rows = taken(batches)
    assert [row["name"] for row in rows] == [f"span {number}" for number in range(1_000)]
    assert {row["dur_ns"] for row in rows} == {1_000}
    assert device.queries - queries < 20


def test_a_span_noted_before_an_ended_one_of_its_stream_may_not_have_ended(
    device: SimulatedDevice, recorder: Recorder, batches: Batches
) -> None:
    """Two threads share a stream: the one that recorded its event first noted its span last."""
    mark = recorder.open()
    device.work(1_000)
    recorder.close(recorder.site("ended", "forward"), mark)
    span(recorder, device, "not ended", 50_000_000)
    fields = len(recorder.spans) // 2
    recorder.spans[:] = recorder.spans[fields:] + recorder.spans[:fields]
    device.host_ns += 1_000_000
    assert taken(batches) == []
    device.host_ns += 100_000_000
    assert [row["name"] for row in taken(batches)] == ["not ended", "ended"]
    assert recorder.dropped == 0


def test_streams_overtake_each_other(
    device: SimulatedDevice, recorder: Recorder, batches: Batches
) -> None:
    span(recorder, device, "slow", 50_000_000)
    span(recorder, device, "fast", 1_000_000, stream=7)
    device.host_ns += 10_000_000
    (fast,) = taken(batches)
    device.host_ns += 60_000_000
    (slow,) = taken(batches)
    assert (fast["name"], fast["track"]) == ("fast", "cuda:0 stream 1")
    assert (slow["name"], slow["track"]) == ("slow", "cuda:0")
    assert fast["dur_ns"] == pytest.approx(1_000_000, abs=1_000)


def test_the_last_spans_are_waited_for(
    device: SimulatedDevice, recorder: Recorder, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    span(recorder, device, "last", 5_000_000)

    def asleep(_seconds: float) -> None:
        device.host_ns += 1_000_000

    monkeypatch.setattr(batches_module.time, "sleep", asleep)
    assert [row["name"] for row in taken(batches, last=True)] == ["last"]
    assert recorder.dropped == 0


def test_a_device_that_fails_costs_its_spans_and_nothing_else(
    device: SimulatedDevice, recorder: Recorder, batches: Batches
) -> None:
    span(recorder, device, "before", 1_000_000)
    device.host_ns += 2_000_000
    assert [row["name"] for row in taken(batches)] == ["before"]
    span(recorder, device, "lost", 1_000_000)
    device.error = RuntimeError("CUDA error: an illegal memory access was encountered")
    recorder.add_row("heartbeats", ts_ns=1, phase="step", last_op="")
    recorder.close(recorder.site("host", "host"), recorder.open())
    batches.collect()
    tables = batches.take()
    assert [row["name"] for table in tables["spans"] for row in table.to_pylist()] == ["host"]
    assert tables["heartbeats"][0].num_rows == 1
    assert recorder.dropped == 1


def test_more_spans_than_are_kept_are_dropped_and_counted(
    device: SimulatedDevice, recorder: Recorder, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches_module, "MAX_WAITING", 100)
    for _ in range(150):
        span(recorder, device, "stuck", NEVER_NS // 4)
    span(recorder, device, "other", 1_000, stream=7)
    device.host_ns += 1_000_000
    assert [row["name"] for row in taken(batches)] == ["other"]
    assert recorder.dropped == 51


def test_a_span_around_a_graph_capture_has_host_times(
    device: SimulatedDevice, recorder: Recorder, batches: Batches
) -> None:
    mark = recorder.open()
    device.capture = True
    inner = recorder.open()
    recorder.close(recorder.site("captured", "forward"), inner)
    device.capture = False
    recorder.close(recorder.site("around", "forward"), mark)
    device.host_ns += 1_000_000
    assert {row["name"]: row["track"] for row in taken(batches)} == {
        "captured": "main",
        "around": "cuda:0",
    }


class PretendedGroup:
    """What a log asks of torch's group."""

    group_name, group_desc = "0", "default"

    def name(self) -> str:
        return "gloo"

    def rank(self) -> int:
        return 0

    def _get_sequence_number_for_group(self) -> int:
        raise RuntimeError("not counted")


def test_a_collective_in_memory_of_the_host_has_host_times(
    device: SimulatedDevice, recorder: Recorder, batches: Batches
) -> None:
    """A device that is far behind has no part in it; one of the device's memory is the device's."""
    log, pretended = CollectiveLog(recorder), PretendedGroup()
    group = Group(pretended, 0, (0, 1))
    for on_device in (False, True):
        instance = log.begin(group, "all_reduce", Payload(4, "float32", on_device), "wrapper", True)
        device.work(1_000_000)
        assert instance.mark is not None
        log.span(instance, instance.mark)
    device.host_ns += 5_000_000
    assert [row["track"] for row in taken(batches)] == ["main", "cuda:0"]
