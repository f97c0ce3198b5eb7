"""DistributedDataParallel on a group of one rank: its waits, the ends of its collectives, and that
it computes what it computes without hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.utils import counters
from torch.nn.parallel import DistributedDataParallel

from tests.trace_hooks.sources.communication.one_rank import installed
from tests.trace_hooks.sources.communication.test_flight_recorder import read_until
from tests.trace_hooks.tiny_models import tracing
from trace_hooks.recording.clock import now
from trace_hooks.recording.recorder import SPAN_FIELDS, Recorder, SpanRow
from trace_hooks.sources.communication.ddp import DataParallelReducers
from trace_hooks.sources.communication.flight_recorder import FlightRecorder

pytestmark = pytest.mark.usefixtures("one_rank")


@pytest.fixture
def ddp(recorder: Recorder) -> Iterator[DataParallelReducers]:
    yield from installed(DataParallelReducers, recorder)


def model_of(
    of: Callable[[nn.Module], nn.Module] = nn.Module.train, **options: Any
) -> DistributedDataParallel:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    return DistributedDataParallel(of(model), **options)


def trained(model: Any, steps: int = 4) -> list[torch.Tensor]:
    """Parameters and buffers after some steps of two micro-batches."""
    is_static = getattr(model, "static_graph", False)  # such a graph has no no_sync at first
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(steps):
        optimizer.zero_grad()
        for micro in range(2):
            with nullcontext() if micro or is_static else model.no_sync():
                generator = torch.Generator().manual_seed(2 * step + micro)
                model(torch.randn(4, 8, generator=generator)).square().mean().backward()
        optimizer.step()
    return [value.clone() for value in model.state_dict().values()]


def spans(recorder: Recorder, name: str) -> list[SpanRow]:
    flat = recorder.spans
    rows = [SpanRow(*flat[i : i + SPAN_FIELDS]) for i in range(0, len(flat), SPAN_FIELDS)]
    return [row for row in rows if recorder.sites[row.site].name == name]


def test_all_reduces_end_with_the_pass_that_waits_for_them(
    recorder: Recorder, flight: FlightRecorder, ddp: DataParallelReducers
) -> None:
    model = DistributedDataParallel(nn.Linear(8, 2))
    loss = model(torch.ones(4, 8)).sum()
    begun = now()
    loss.backward()
    ended = now()
    read_until(flight, rows=1, op="all_reduce")
    (row,) = [row for row in recorder.collectives if row.op == "all_reduce" and row.end_ns > 0]
    assert begun < row.enqueue_ns < row.end_ns < ended
    assert (row.state, row.source) == ("completed", "flight_recorder")
    (span,) = spans(recorder, "all_reduce")
    assert row.enqueue_ns < span.begin_ns < row.end_ns <= span.end_ns < ended
    assert span.extra is not None
    assert (span.extra.group_id, span.extra.coll_seq) == (row.group_id, row.seq)
    assert span.depth == 0


def test_the_broadcast_of_buffers_ends_when_it_returns(
    recorder: Recorder, flight: FlightRecorder, ddp: DataParallelReducers
) -> None:
    model = model_of()
    before = now()
    model(torch.ones(4, 8))
    read_until(flight, rows=3)  # two of them when DDP was made
    rows = [row for row in recorder.collectives if row.enqueue_ns > before]
    assert {row.op for row in rows} == {"broadcast"}
    assert all(row.enqueue_ns < row.end_ns < now() for row in rows)
    assert spans(recorder, "broadcast")[-1].end_ns >= max(row.end_ns for row in rows)


def test_a_pass_without_synchronisation_waits_for_nothing(
    recorder: Recorder, ddp: DataParallelReducers
) -> None:
    model = model_of()
    with model.no_sync():
        model(torch.ones(4, 8)).sum().backward()
    assert not spans(recorder, "all_reduce")
    assert recorder.open().depth == 0


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"find_unused_parameters": True},
        {"gradient_as_bucket_view": True},
        {"static_graph": True},
        {"bucket_cap_mb": 1e-4},
    ],
    ids=str,
)
def test_the_model_trains_to_the_same_bits(options: dict[str, Any]) -> None:
    plain = trained(model_of(**options))
    with tracing("modules", "collectives", "ddp", "flight_recorder") as traced:
        seen = trained(model_of(**options))
        waits = [span for span in traced.spans() if span.name == "all_reduce"]
        assert len(waits) == (8 if "static_graph" in options else 4)
        assert traced.recorder.open().depth == 0
    assert all(torch.equal(a, b) for a, b in zip(plain, seen, strict=True))


@pytest.mark.parametrize("inside", [False, True], ids=["around DDP", "inside DDP"])
def test_torch_compile_breaks_its_graphs_where_it_does_without_hooks(inside: bool) -> None:
    def compiled() -> tuple[list[torch.Tensor], set[str]]:
        torch._dynamo.reset()
        counters.clear()
        model = model_of(of=partial(torch.compile, backend="eager") if inside else nn.Module.train)
        values = trained(model if inside else torch.compile(model, backend="eager"))
        assert counters["frames"]["ok"] > 0
        return values, set(counters["graph_break"])

    values, breaks = compiled()
    with tracing("modules", "collectives", "ddp", "flight_recorder"):
        seen_values, seen_breaks = compiled()
    assert all(torch.equal(a, b) for a, b in zip(values, seen_values, strict=True))
    assert seen_breaks == breaks


def test_a_loss_without_a_graph_fails_as_it_does_without_hooks(ddp: DataParallelReducers) -> None:
    model_of()(torch.ones(4, 8))
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(()).backward()


def test_what_was_replaced_is_restored() -> None:
    def replaced() -> list[Callable[..., Any]]:
        reducer = vars(torch._C._distributed_c10d.Reducer)["prepare_for_backward"]
        return [torch.autograd.backward, dist._broadcast_coalesced, reducer]

    before = replaced()
    with tracing("modules", "ddp"):
        assert all(a is not b for a, b in zip(before, replaced(), strict=True))
    assert all(a is b for a, b in zip(before, replaced(), strict=True))
