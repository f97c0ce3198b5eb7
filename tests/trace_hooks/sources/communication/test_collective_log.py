"""Rows of collectives whose times an accelerator resolves later."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.communication import collective_log
from trace_hooks.sources.communication.collective_log import Payload, log_of

pytestmark = pytest.mark.usefixtures("one_rank")


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


def test_instances_that_nothing_resolves_are_bounded(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk hangs, and with it the thread that looks at the stamps."""
    monkeypatch.setattr(collective_log, "MOST_ON_DEVICE", 10, raising=False)
    recorder.device_clock = Stamps()  # type: ignore[assignment]
    log = log_of(recorder)
    group = log.groups.of(dist.group.WORLD)
    recorder._max_rows = 20
    for _ in range(100):
        instance = log.begin(group, "all_reduce", Payload(8, "float32", True), "wrapper")
        log.issued(instance)
        log.finish(instance, "completed", 99)
    assert len(log._on_device) == 10
    assert {row.state for row in recorder.collectives} == {"started"}
    assert (len(recorder.collectives), recorder.dropped) == (20, 70)
