"""Communication sources on one real gloo rank: numbering, gaps, batches, device stamps."""

from __future__ import annotations

import gc
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.trace_hooks.sources.communication.one_rank import all_reduce, installed
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.communication import collectives
from trace_hooks.sources.communication.collectives import Collectives
from trace_hooks.sources.communication.flight_recorder import FlightRecorder
from trace_hooks.sources.communication.functional import FunctionalCollectives
from trace_hooks.sources.context import SourceContext

pytestmark = pytest.mark.usefixtures("one_rank")


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


def test_python_subclasses_do_not_recurse(wrapped: Collectives) -> None:
    class OwnWork(dist.Work):
        pass

    class OwnGroup(dist.ProcessGroup):
        pass

    with pytest.raises(RuntimeError, match="timed out"):
        OwnWork().wait(timedelta(milliseconds=1))
    with pytest.raises(RuntimeError, match="backend"):
        OwnGroup(0, 1).allreduce([torch.ones(1)])


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
