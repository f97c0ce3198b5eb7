"""Cost of one event of each source, in ns of the training thread's CPU time."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from timing import REPEATS, cpu_ns, loop_ns
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader

from trace_hooks.log_text.line_rows import LineRows
from trace_hooks.recording.arrow_columns import collective_table, row_table, span_table
from trace_hooks.recording.clock import Anchor
from trace_hooks.recording.dumped_stack import StackDump
from trace_hooks.recording.fetch_ring import FetchRing
from trace_hooks.recording.flight_ring import Ring
from trace_hooks.recording.guard import guarded
from trace_hooks.recording.recorder import SPAN_FIELDS, CollectiveRow, Recorder
from trace_hooks.recording.segment_writer import SegmentWriter
from trace_hooks.recording.step_counter import StepCounter
from trace_hooks.sources import load_source
from trace_hooks.sources.communication import flight_dump
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.experts.routers import own_router
from trace_hooks.sources.mixtures.draws import Draws
from trace_hooks.sources.mixtures.libraries import Libraries
from trace_hooks.sources.startup.stack_phases import place_of
from trace_hooks.sources.training.worker_fetches import Worker

COUNT = 500
TURNS = 8
BLOCKS = 50
ROUTER_LAYERS, MICROBATCHES = 6, 4
STEP_NS = 1e8
ROWS = 16_000


def event_costs() -> dict[str, float]:
    """Cost of each kind of event by name; the name says the unit."""
    found = recorder_costs() | module_costs() | loader_costs() | worker_costs()
    found |= collector_costs() | router_costs()
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{folder}/store"
        dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
        found |= collective_costs() | reducer_costs() | flight_recorder_costs()
        dist.destroy_process_group()
    return found | startup_costs() | printed_line_costs() | drain_costs()


def recorder_costs() -> dict[str, float]:
    """The recorder's own calls."""
    recorder = Recorder()
    site = recorder.site("block", "forward")

    @guarded("benchmark.nothing")
    def nothing() -> None:
        pass

    with tempfile.TemporaryDirectory() as folder:
        ring = Ring(Path(folder, "ring"), 0, 0)

        def write() -> int:
            return ring.write(1, 2, "all_reduce", "float32", 4096, -1, -1, 7, 123)

        return {
            "span: open + close, ns": cpu_ns(
                lambda: recorder.close(site, recorder.open()), COUNT, recorder.spans.clear
            ),
            "guarded empty hook, ns": cpu_ns(nothing, COUNT),
            "ring write, ns": cpu_ns(write, COUNT),
            "ring write + end, ns": cpu_ns(lambda: ring.ended(write(), 123), COUNT),
        }


@contextmanager
def installed(*names: str) -> Iterator[tuple[Recorder, list[Any]]]:
    """These sources alone, at the finest level."""
    recorder = Recorder()
    steps = StepCounter(recorder, int, int)
    sources = [load_source(name)(SourceContext(recorder, steps)) for name in names]
    for source in sources:
        source.install()
    try:
        yield recorder, sources
    finally:
        for source in reversed(sources):
            source.uninstall()


def difference(
    call: Callable[[], object], count: int, *names: str, model: nn.Module | None = None
) -> float:
    """CPU ns that these sources add to one call; loops with and without them take turns.

    Short loops, the least of many: on a shared machine a long one never runs undisturbed.
    """
    bare, hooked = [], []
    for _ in range(TURNS):
        bare += [loop_ns(call, count) for _ in range(REPEATS)]
        with installed(*names) as (recorder, sources):
            if model is not None:
                for source in sources:
                    source.instrument(model)
            loop_ns(call, 100)  # a hook's first calls are timed one by one
            for _ in range(REPEATS):
                hooked.append(loop_ns(call, count))
                for rows in (recorder.spans, recorder.collectives, recorder.rows):
                    rows.clear()
    return min(hooked) - min(bare)


class Layer(nn.Module):
    """A block that costs next to nothing itself."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One multiplication."""
        return x * self.weight


class Stack(nn.Module):
    """BLOCKS of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(BLOCKS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All of them in turn."""
        for layer in self.layers:
            x = layer(x)
        return x


def module_costs() -> dict[str, float]:
    """A watched block, without and with a backward pass."""
    model, x = Stack(), torch.ones(1, requires_grad=True)

    def forward() -> None:
        with torch.no_grad():
            model(x)

    forward_ns = difference(forward, 4, "modules", model=model)
    both_ns = difference(lambda: model(x).sum().backward(), 2, "modules", model=model)
    return {
        "module: forward, ns": forward_ns / BLOCKS,
        "module: forward + backward, ns": both_ns / BLOCKS,
    }


def loader_costs() -> dict[str, float]:
    """next() of a DataLoader without workers."""
    tokens = torch.zeros(TURNS * (2 * REPEATS * 50 + 100), 1, dtype=torch.int64)
    batches = iter(DataLoader(tokens))  # type: ignore[arg-type]
    return {"data: next(), ns": difference(lambda: next(batches), 50, "data")}


class Interleaved:
    """A mixture of streams, as Hugging Face datasets has them, of which each sample costs next to
    nothing.
    """

    def __init__(self, sources: list[Any]) -> None:
        self.ex_iterables = sources

    def _get_indices_iterator(self) -> Iterator[int]:
        yield from itertools.cycle(range(len(self.ex_iterables)))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for place in self._get_indices_iterator():
            yield place, place

    _iter_arrow = __iter__


def worker_costs() -> dict[str, float]:
    """In a loader's worker, and what its rank takes to read of it."""
    fetcher = SimpleNamespace(dataset=[])
    tables = ConcatDataset([[0], [1]])  # type: ignore[list-item]
    samples = iter(Interleaved([Interleaved([])] * 2))
    with tempfile.TemporaryDirectory() as folder:
        rank = FetchRing.create(Path(folder, "a.fetches"))
        worker = Worker(FetchRing.open(Path(folder, "a.fetches")))
        fetch = worker.timed_fetch(lambda fetcher, index: None)
        of_tables = worker.timed_fetch(lambda fetcher, index: [tables[one] for one in index])
        of_streams = worker.timed_fetch(lambda fetcher, index: [next(samples) for _ in index])

        def cost(call: Callable[[Any, list[int]], object]) -> float:
            return cpu_ns(lambda: call(fetcher, [0, 1] * 4), COUNT, rank.take)

        alone, plain = cost(fetch), (cost(of_tables), cost(of_streams))
        libraries = adapted()
        Draws.current = worker
        samples = iter(Interleaved([Interleaved([])] * 2))
        mixed = cost(of_tables), cost(of_streams)
        Draws.current = None
        libraries.restore()

        def read() -> float:
            for _ in range(COUNT):
                fetch(fetcher, [0])
            return loop_ns(rank.take, 1) / COUNT

        return {
            "loader's worker: a fetch, ns": alone,
            "loader's worker: a sample of a mixture, ns": (mixed[0] - plain[0]) / 8,
            "loader's worker: a sample of a mixture of streams, ns": (mixed[1] - plain[1]) / 8,
            "reading a worker's record, ns": min(read() for _ in range(REPEATS)),
        }


def adapted() -> Libraries:
    """Adapters of ConcatDataset and of streams."""
    module = SimpleNamespace(
        CyclingMultiSourcesExamplesIterable=Interleaved,
        RandomlyCyclingMultiSourcesExamplesIterable=type("Randomly", (Interleaved,), {}),
    )
    sys.modules["datasets.iterable_dataset"] = module  # type: ignore[assignment]
    found = Libraries()
    found.adapt()
    del sys.modules["datasets.iterable_dataset"]
    return found


def collector_costs() -> dict[str, float]:
    """A collection of the youngest generation."""
    return {"gc: short collection, ns": difference(lambda: gc.collect(0), 100, "gc")}


class Router(nn.Module):
    """A router that has chosen already."""

    def __init__(self, num_experts: int, tokens: int) -> None:
        super().__init__()
        self.chosen = torch.randint(0, num_experts, (tokens, 2))

    def forward(self) -> torch.Tensor:
        """Integers (N, 2)."""
        return self.chosen


def router_costs() -> dict[str, float]:
    """Calls of routers, and what the end of a step adds: 6 layers of 4 micro-batches of 64 tokens,
    few, because on a device it is not the host that counts them.
    """
    routers = [Router(8, 64) for _ in range(ROUTER_LAYERS)]
    bare_ns = cpu_ns(lambda: routers[0](), COUNT)
    ends = []
    with installed("experts") as (recorder, (source,)):
        for router in routers:
            source.add(own_router(router, 8, None, None, None, None, None))
        source.step_begin()
        call_ns = cpu_ns(lambda: routers[0](), COUNT, source.step_begin) - bare_ns
        for _ in range(TURNS * REPEATS):
            source.step_begin()
            for _ in range(MICROBATCHES):
                for router in routers:
                    router()
            ends.append(loop_ns(source.step_end, 1))
            source.poll()
            recorder.rows.clear()
    calls = ROUTER_LAYERS * MICROBATCHES
    return {
        "experts: a router's call, ns": call_ns,
        f"experts: end of a step of {calls} calls, ns": min(ends),
        f"experts: {calls} calls in a step of 100 ms, %": 100
        * (calls * call_ns + min(ends))
        / STEP_NS,
    }


def collective_costs() -> dict[str, float]:
    """Collectives of 4 numbers over gloo with one rank."""
    x, world = torch.ones(4), dist.group.WORLD

    def waited() -> None:
        dist.all_reduce(x, async_op=True).wait()

    def functional() -> None:
        funcol.wait_tensor(funcol.all_reduce(x, "sum", world))

    bare = cpu_ns(lambda: dist.all_reduce(x), 50)
    return {
        "bare all_reduce, ns": bare,
        "all_reduce, ns": difference(lambda: dist.all_reduce(x), 50, "collectives"),
        "all_reduce async + wait, ns": difference(waited, 50, "collectives"),
        "functional all_reduce + wait, ns": difference(functional, 20, "functional"),
    }


def reducer_costs() -> dict[str, float]:
    """A forward and a backward pass of DDP, whose reducer is followed, over gloo with one rank."""
    model, x = nn.parallel.DistributedDataParallel(nn.Linear(4, 4)), torch.ones(2, 4)

    def run() -> None:
        model(x).sum().backward()

    return {"ddp: forward + backward, ns": difference(run, 10, "ddp")}


def startup_costs() -> dict[str, float]:
    """One of the looks at the training thread, five a second until the first step has ended, on the
    hooks' own thread. Inside of imports, as most of them are, the stack is some 40 frames deep.
    """
    dump, thread = StackDump(), threading.get_ident()

    def look(depth: int = 40) -> float:
        if depth:
            return look(depth - 1)
        return cpu_ns(lambda: place_of(dump.stack_of(thread)), 50)

    cost = look()
    dump.close()
    return {"startup: a look at the training thread, ns": cost}


def flight_recorder_costs() -> dict[str, float]:
    """One read of a full Flight Recorder; a look for gaps where there are none."""
    x = torch.ones(4)
    for _ in range(2_100):
        dist.all_reduce(x)
    data = flight_dump.dump()
    with installed("flight_recorder") as (_, sources):
        look_ns = cpu_ns(sources[0].poll, 200)
    return {
        "flight recorder: dump, ms": cpu_ns(flight_dump.dump, 3) / 1e6,
        "flight recorder: parse all, ms": cpu_ns(lambda: flight_dump.entries_from(data, 0), 3)
        / 1e6,
        "flight recorder: check for gaps, ns": look_ns,
    }


def printed_line_costs() -> dict[str, float]:
    """A line that the job prints: on the printing thread, and later on the drain thread."""
    line = "2026-01-01 12:00:00,123 INFO train: step 1234 loss 2.3456 lr 0.0003 tokens/s 51234.5\n"
    error = "2026-01-01 12:00:00,123 ERROR train: RuntimeError: CUDA out of memory. Tried 2 GiB\n"
    before, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: PTH123, SIM115
    try:
        write_ns = difference(lambda: sys.stdout.write(line), COUNT, "logs")
    finally:
        sys.stdout.close()
        sys.stdout = before
    costs = {"printed line, ns": write_ns}
    for name, text, keeps_all in (
        ("left out", line, False),
        ("kept", line, True),
        ("an error", error, False),
    ):
        rows, seconds = LineRows("stdout", "stdout", keeps_all), iter(range(10**9, 10**18, 10**9))

        def look(rows: LineRows = rows, text: str = text, at: Iterator[int] = seconds) -> None:
            rows.add(text, next(at))
            rows.take(0)

        costs[f"drain: printed line, {name}, ns"] = cpu_ns(look, COUNT)
    return costs | {"drain: one printed line, bytes": _bytes_of_lines(line)}


def _bytes_of_lines(line: str) -> float:
    """A row of log_lines on disk, of a thousand lines that differ in their numbers."""
    rows = LineRows("stdout", "stdout", True)
    rows.add("".join(line.replace("1234", str(n)) for n in range(1_000)), 10**9)
    made = [{**row, "host": "node0", "step": 1} for row in rows.take(10**9)]
    with tempfile.TemporaryDirectory() as folder:
        writer = SegmentWriter(Path(folder), 0, 0)
        writer.write("log_lines", [row_table("log_lines", made, Anchor())])
        path, *_ = Path(folder, "segments").glob("log_lines-*")
        return path.stat().st_size / len(made)


def drain_costs() -> dict[str, float]:
    """Rows to Parquet on the drain thread: CPU time and bytes of one row."""
    recorder, anchor = Recorder(), Anchor()
    sites = [recorder.site(f"blocks.{n}", "forward") for n in range(48)]
    for n in range(ROWS):
        recorder.close(sites[n % 48], recorder.open(), microbatch=n % 8)
        begun = 10**9 + n * 9_000 + n % 7
        row = CollectiveRow(
            n // 500,
            7,
            n,
            "all_reduce",
            "float32",
            4096,
            -1,
            -1,
            begun,
            begun,
            begun + 5_000 + 37 * n % 2_000,
            "completed",
            "wrapper",
        )
        recorder.add_collective(row)
    with tempfile.TemporaryDirectory() as folder:
        writer = SegmentWriter(Path(folder), 0, 0)
        costs: dict[str, float] = {}
        for name, make in (
            ("spans", lambda: span_table(recorder.spans, recorder.sites, str, anchor)),
            ("collectives", lambda: collective_table(recorder.collectives, anchor)),
        ):
            times = []
            for _ in range(TURNS):
                begun = time.process_time_ns()
                writer.write(name, [make()])
                times.append(time.process_time_ns() - begun)
            costs[f"drain: one of {name}, ns"] = min(times) / ROWS
            path, *_ = Path(folder, "segments").glob(f"{name}-*")
            costs[f"drain: one of {name}, bytes"] = path.stat().st_size / ROWS
    assert len(recorder.spans) == ROWS * SPAN_FIELDS
    return costs
