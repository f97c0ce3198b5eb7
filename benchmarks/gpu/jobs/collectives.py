"""One rank of a job of collectives; hands over what the hooks, the Flight Recorder and the profiler
each saw of it.

python -m benchmarks.gpu.jobs.collectives cuda|cpu FOLDER RANK WORLD_SIZE
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import trace_hooks as th
from benchmarks.gpu.children import hand_over
from benchmarks.gpu.figures import Place
from benchmarks.gpu.profiled import Profile, profiled
from benchmarks.gpu.training import rows_of
from benchmarks.timing import in_turns, loop_ns
from trace_hooks.recording.flight_ring import Ring, read_ring
from trace_hooks.recording.recorder import SPAN_FIELDS, Recorder, SpanRow
from trace_hooks.recording.step_counter import StepCounter
from trace_hooks.sources.communication import flight_dump
from trace_hooks.sources.communication.collectives import Collectives
from trace_hooks.sources.context import SourceContext

CALLS, REDUCES, WARM_UP, DDP = range(5), range(5, 10), range(10, 15), range(15, 20)
"""Steps of: all kinds of calls; all_reduce only, profiled; DDP, then DDP profiled."""

REDUCES_A_STEP = 10
COST_CALLS, COST_ROUNDS = 200, 9


class Ops:
    """The calls of a step, counted."""

    def __init__(self, place: Place) -> None:
        self.world = dist.get_world_size()
        size = self.world * place.sized(1 << 20, 64)
        self.large = torch.ones(size, device=place.device)
        self.part = torch.ones(size // self.world, device=place.device)
        # over one rank NCCL runs a kernel for a mean, and none for a sum
        self.mean = dist.ReduceOp.SUM if place.is_rehearsal else dist.ReduceOp.AVG
        self.made: Counter[str] = Counter()

    def all_kinds(self) -> None:
        """One of each kind and, with more than one rank, a message to the next."""
        dist.all_reduce(self.large, self.mean)
        dist.all_reduce(self.large, self.mean, async_op=True).wait()
        dist.all_gather_into_tensor(self.large, self.part)
        dist.reduce_scatter_tensor(self.part, self.large)
        dist.broadcast(self.large, 0)
        dist.barrier()
        self.made.update(
            {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "broadcast": 1, "barrier": 1}
        )
        if self.world > 1:
            self._to_the_next()

    def _to_the_next(self) -> None:
        me = dist.get_rank()
        received = torch.empty_like(self.part)
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, self.part, (me + 1) % self.world),
                dist.P2POp(dist.irecv, received, (me - 1) % self.world),
            ]
        )
        for work in works:
            work.wait()
        self.made.update({"send": 1, "recv": 1})

    def reduces(self) -> None:
        """One kind only, so that calls and kernels pair in order."""
        for _ in range(REDUCES_A_STEP):
            dist.all_reduce(self.large, self.mean)
        self.made["all_reduce"] += REDUCES_A_STEP


def main() -> None:
    device, folder, rank, world = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:5])
    place = Place(device, folder / f"of-{rank}", print)
    place.folder.mkdir()
    if not place.is_rehearsal:
        torch.cuda.set_device(rank)
    dist.init_process_group(
        place.backend, init_method=f"file://{folder}/store", rank=rank, world_size=world
    )
    hand_over(_recorded(place) | {"costs": _costs(place)})
    gc.collect()  # DDP holds the group, in a cycle of references: it must not outlive this
    dist.destroy_process_group()


def _recorded(place: Place) -> dict[str, Any]:
    """Steps under the hooks, and what each saw of them."""
    ops, ddp = Ops(place), _ddp_step(place)
    tracer = th.start(place.folder / "runs", run="nccl", level="steps")

    def run(steps: range, work: Callable[[], object]) -> None:
        for number in steps:
            with tracer.step(number):
                work()

    run(CALLS, ops.all_kinds)
    place.wait()
    reduces = profiled(place, lambda: run(REDUCES, ops.reduces))
    run(WARM_UP, ddp)
    place.wait()
    reduces_of_ddp = profiled(place, lambda: run(DDP, ddp))
    flight = _flight(place.backend)
    rings = [path for path in Path(os.environ["TRACE_HOOKS_RING_DIR"]).rglob("*") if path.is_file()]
    records = [r._asdict() for path in rings for r in _records(path)]
    tracer.stop()
    (rank_file,) = (place.folder / "runs" / "nccl" / "ranks").glob("*.json")
    return {
        "made": ops.made,
        "ring": records,
        "rows": rows_of(place.folder / "runs", "collectives").to_pylist(),
        "flight": flight,
        "reduce_kernels": _kernels(reduces),
        "ddp_kernels": _kernels(reduces_of_ddp),
        "errors": json.loads(rank_file.read_text("utf-8"))["hooks"]["errors"],
    }


def _ddp_step(place: Place) -> Callable[[], None]:
    """A step of DDP with several buckets."""
    width = place.sized(2048, 32)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(8))).to(place.device)
    ddp = DistributedDataParallel(model, bucket_cap_mb=place.sized(34_000, 8) / 1024)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-4)
    x = torch.ones(place.sized(512, 4), width, device=place.device)

    def step() -> None:
        optimizer.zero_grad()
        ddp(x).square().mean().backward()
        optimizer.step()

    return step


def _records(path: Path) -> list[Any]:
    try:
        return read_ring(path)[1]
    except ValueError:  # a file of the watchdog
        return []


def _flight(backend: str) -> list[dict[str, Any]]:
    """Entries of the Flight Recorder, once torch's own watchdog has seen all of them end."""
    recorder = flight_dump.recorder_of(backend)
    until_s = time.monotonic() + 5
    while True:
        entries = flight_dump.entries_from(flight_dump.dump(recorder), 0)
        if all(entry["retired"] for entry in entries) or time.monotonic() > until_s:
            return entries
        time.sleep(0.2)


def _kernels(found: Profile) -> list[tuple[int, int]]:
    """(begin, end) of the kernels of NCCL, in order."""
    names = ("nccl", "onerank")
    return [
        (found.unix_ns(kernel.begin_us), found.unix_ns(kernel.end_us))
        for kernel in found.kernels
        if any(name in kernel.name.lower() for name in names)
    ]


def _costs(place: Place) -> dict[str, list[float]]:
    """CPU ns of training's thread for a waited all_reduce: rounds of each way, in turns.

    Every rank makes the same number of calls, or the others would wait forever.
    """
    x = torch.ones(4, device=place.device)
    sources = {
        "hooked": _source(place, has_device=True),
        "hooked, host times": _source(place, has_device=False),
    }

    def turn(way: str) -> float:
        source = sources.get(way)
        if source is None:
            return loop_ns(lambda: dist.all_reduce(x), COST_CALLS, place.wait)
        source.install()
        try:
            return loop_ns(lambda: dist.all_reduce(x), COST_CALLS, lambda: _drain(place, source))
        finally:
            source.uninstall()

    for way in ("bare", *sources):
        turn(way)  # warms up
    return in_turns(("bare", "bare again", *sources), COST_ROUNDS, turn)


def _drain(place: Place, source: Collectives) -> None:
    """Give the events back, as the drain thread does."""
    place.wait()
    source.poll()
    recorder = source.recorder
    while recorder.spans:
        span = SpanRow(*recorder.spans[-SPAN_FIELDS:])
        del recorder.spans[-SPAN_FIELDS:]
        if span.begin_event is not None:
            recorder.device_clock.release(span.begin_event)
            recorder.device_clock.release(span.end_event)
    recorder.collectives.clear()


def _source(place: Place, has_device: bool) -> Collectives:
    recorder = Recorder()
    name = "ring-of-costs" if has_device else "ring-of-host-costs"
    recorder.rank_state.ring = Ring(place.folder / name, 0, 0)
    if has_device and not place.is_rehearsal:
        from trace_hooks.recording.cuda.cuda_clock import CudaClock, CudaEvents

        recorder.device_clock = CudaClock(CudaEvents(torch.cuda.current_device()), "cuda")
    return Collectives(SourceContext(recorder, StepCounter(recorder, int, int)))


if __name__ == "__main__":
    main()
