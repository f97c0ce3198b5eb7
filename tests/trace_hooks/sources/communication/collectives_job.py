"""The 4-rank job of test_collectives_of_ranks.py: every way torch communicates, under the hooks.

Run as `python collectives_job.py FOLDER`; each rank writes what its recorder holds to
FOLDER/RANK.json, with the number of rows before each section.
"""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from trace_hooks.job.layout_detection import detect_layout
from trace_hooks.recording import guard
from trace_hooks.recording.recorder import SPAN_FIELDS, Recorder, SpanRow
from trace_hooks.sources.communication.collectives import METHODS, Collectives
from trace_hooks.sources.communication.flight_recorder import FlightRecorder
from trace_hooks.sources.communication.functional import OPERATORS, FunctionalCollectives
from trace_hooks.sources.context import SourceContext

WORLD = 4
ALL_REDUCE = dist.all_reduce  # a name imported before the hooks, as user code does


class ListRing:
    """An EnqueueRing that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[tuple[Any, ...]] = []

    def write(self, *record: Any) -> None:
        self.records.append(record)


class Job:
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.recorder = Recorder()
        self.recorder.rank_state.ring = self.ring = ListRing()
        self.sources = [
            kind(SourceContext(self.recorder, None))  # type: ignore[arg-type]
            for kind in (Collectives, FunctionalCollectives, FlightRecorder)
        ]
        self.sections: dict[str, Any] = {}

    def section(self, name: str, work: Any) -> None:
        """Run one part as a step of its own and keep what was recorded during it."""
        self.recorder.rank_state.step += 1
        for source in self.sources:
            source.step_begin()
        rows, spans, ring = (
            len(self.recorder.collectives),
            len(self.recorder.spans),
            len(self.ring.records),
        )
        value = work()
        flight_recorder = self.sources[2]
        flight_recorder._not_before_ns = 0  # the test is in a hurry, a job waits for its share
        flight_recorder.poll()
        flat = self.recorder.spans[spans:]
        found = [SpanRow(*flat[i : i + SPAN_FIELDS]) for i in range(0, len(flat), SPAN_FIELDS)]
        self.sections[name] = {
            "step": self.recorder.rank_state.step,
            "rows": [row._asdict() for row in self.recorder.collectives[rows:]],
            "spans": [
                {
                    "name": self.recorder.sites[span.site].name,
                    "kind": self.recorder.sites[span.site].kind,
                    "dur_ns": span.end_ns - span.begin_ns,
                    "depth": span.depth,
                    "extra": list(span.extra or ()),
                }
                for span in found
            ],
            "ring": self.ring.records[ring:],
            "value": value,
        }


def total(tensor: torch.Tensor) -> float:
    return float(tensor.double().sum())


def explicit_ops(rank: int) -> dict[str, float]:
    """Each collective of torch.distributed once, in this order (EXPLICIT in the test)."""
    ours = torch.arange(8.0) + rank
    out: dict[str, float] = {}
    x = ours.clone()
    ALL_REDUCE(x)
    out["all_reduce"] = total(x)
    x = ours.clone()
    dist.broadcast(x, 1)
    out["broadcast"] = total(x)
    x = ours.clone()
    dist.reduce(x, 0)
    parts = [torch.empty(8) for _ in range(WORLD)]
    dist.all_gather(parts, ours)
    out["all_gather"] = total(torch.cat(parts))
    x = torch.empty(8 * WORLD)
    dist.all_gather_single(x, ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        dist.all_gather_into_tensor(x, ours)
    x = torch.empty(2)
    dist.reduce_scatter(x, list(ours.chunk(WORLD)))
    out["reduce_scatter"] = total(x)
    dist.reduce_scatter_single(x, ours)
    x = torch.empty(8)
    dist.all_to_all_single(x, ours)
    dist.gather(ours, parts if rank == 0 else None, 0)
    dist.scatter(x, parts if rank == 0 else None, 0)
    dist.barrier()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    work.wait()
    return out


def uneven_ops(rank: int) -> None:
    """What does not come once per call, or not equally on every rank."""
    dist.monitored_barrier()
    dist.all_gather_object([None] * WORLD, {"rank": rank})
    x = torch.ones(4)
    with distributed_c10d._coalescing_manager():
        dist.all_reduce(x)
        dist.all_reduce(x.clone())
    dist.all_reduce(x)


def messages(rank: int) -> float:
    """Ring of batched messages, a pair of plain ones, one from anyone; then a collective."""
    received = torch.empty(4)
    sends = torch.full((4,), float(rank))
    batch = [
        dist.P2POp(dist.isend, sends, (rank + 1) % WORLD),
        dist.P2POp(dist.irecv, received, (rank - 1) % WORLD),
    ]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    if rank == 0:
        dist.send(sends, 1, tag=7)
        dist.send(sends, 1, tag=7)
    elif rank == 1:
        dist.recv(received, 0, tag=7)
        dist.recv(received, tag=7)
    x = torch.ones(1)
    dist.all_reduce(x)  # numbers stay equal although ranks 2 and 3 sent less
    return total(received)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16, bias=False)
        self.down = nn.Linear(16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.up(x).relu())


def train(model: nn.Module, rank: int, steps: int = 2) -> list[float]:
    torch.manual_seed(7 + rank)
    batch = torch.randn(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def fsdp_tp(mesh: Any, rank: int) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block())
    for block in model:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    return train(model, rank // 2)


def ddp(rank: int) -> list[float]:
    torch.manual_seed(0)
    return train(nn.parallel.DistributedDataParallel(Block()), rank)


def refused(rank: int) -> str:
    """An operation that raises on every rank before it is entered, then one that works."""
    try:
        dist.all_gather_single(torch.empty(3), torch.ones(2))
    except (RuntimeError, ValueError) as error:
        kind = type(error).__name__
    dist.all_reduce(torch.ones(1))
    return kind


def functional(rank: int) -> list[float]:
    world = dist.group.WORLD
    x = torch.arange(8.0) + rank
    done = [
        funcol.all_reduce(x, "sum", world),
        funcol.all_gather_single(x, 0, world),
        funcol.reduce_scatter_single(x, "sum", 0, world),
        funcol.all_to_all_single(x, [2] * WORLD, [2] * WORLD, world),
        *funcol.all_reduce_coalesced([x, x + 1], "sum", world),
    ]
    return [total(part.wait()) for part in done]


def compiled(rank: int, alone: Any) -> list[float]:
    """fullgraph compile of functional collectives and of a wrapped function, on rank 0 alone."""
    if rank != 0:
        return []

    def double(x: torch.Tensor) -> torch.Tensor:
        y = funcol.all_reduce(x * 2, "sum", alone)
        return funcol.wait_tensor(y) + 1

    def plain(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y, group=alone)
        return y + 1

    x = torch.arange(4.0)
    return [
        total(torch.compile(function, backend="aot_eager", fullgraph=True)(x))
        for function in (double, plain)
    ]


def twins(groups: list[Any]) -> None:
    """Collectives of two groups of the same ranks, entered in another order on odd ranks."""
    works = [dist.all_reduce(torch.ones(1), group=group, async_op=True) for group in groups]
    for work in works:
        work.wait()


def unwaited(rank: int) -> None:
    """A collective whose Work is dropped without a wait."""
    dist.all_reduce(torch.ones(1), async_op=True)


def with_failing_hooks(rank: int) -> dict[str, Any]:
    """Every guarded hook of the three sources raises in turn; results stay right."""
    content: dict[str, Any] = {}
    ours = ("collectives.", "functional.", "flight_recorder.")
    unused_here = (
        "collectives.coalesce",
        "collectives.coalesced",  # gloo cannot
        "flight_recorder.shutdown",  # test_collectives.py shuts groups down
    )
    for name in [name for name in guard.HOOKS if name.startswith(ours)]:
        if name in unused_here:
            continue
        working, before = guard.HOOKS[name], guard.account.errors.get(name, 0)

        def broken(*_: Any, **__: Any) -> None:
            raise ZeroDivisionError("injected")

        guard.HOOKS[name] = broken
        results = []
        for _ in range(2):
            x = torch.ones(2) * (rank + 1)
            dist.all_reduce(x)
            y = torch.ones(2) * (rank + 1)
            work = dist.all_reduce(y, async_op=True)
            work.wait()
            z = funcol.all_reduce(torch.ones(2) * (rank + 1), "sum", dist.group.WORLD).wait()
            dist.all_reduce(torch.ones(1), async_op=True)  # dropped
            with suppress(RuntimeError, ValueError):
                dist.all_gather_single(torch.empty(3), torch.ones(2))
            with suppress(RuntimeError, ValueError):
                torch.ops._c10d_functional.all_reduce(torch.ones(2), "no such op", "0")
            results.append([total(x), total(y), total(z)])
        guard.HOOKS[name] = working
        guard.disabled.discard(name)
        content[name] = {
            "results": results,
            "errors": guard.account.errors.get(name, 0) - before,
        }
    guard.account.errors.clear()
    return content


def hooked_attributes() -> list[Any]:
    """What the hooks replace, to compare by identity."""
    operators = torch.ops._c10d_functional
    return [
        *(vars(dist.ProcessGroup).get(name) for name in METHODS),
        *(
            getattr(operators, name)._op
            for name in [*OPERATORS, "wait_tensor"]
            if hasattr(operators, name)
        ),
        vars(dist.Work).get("wait"),
    ]


def main(rank: int, folder: str, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    unknown = detect_layout()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dist.all_reduce(torch.ones(1))  # before the hooks: not theirs to record
    plain = {
        "fsdp_tp": fsdp_tp(mesh, rank),
        "ddp": ddp(rank),
        "functional": functional(rank),
        "explicit": explicit_ops(rank),
        "messages": messages(rank),
        "refused": refused(rank),
    }
    before = hooked_attributes()
    job = Job(rank)
    for source in job.sources:
        source.install()
    first, second = dist.new_group([0, 1, 2, 3]), dist.new_group([0, 1, 2, 3])
    alone = dist.new_group([0])
    job.section("explicit", lambda: explicit_ops(rank))
    job.section("uneven", lambda: uneven_ops(rank))
    job.section("messages", lambda: messages(rank))
    job.section("twins", lambda: twins([first, second] if rank % 2 else [second, first]))
    job.section("refused", lambda: refused(rank))
    job.section("functional", lambda: functional(rank))
    job.section("fsdp_tp", lambda: fsdp_tp(mesh, rank))
    job.section("ddp", lambda: ddp(rank))
    job.section("compiled", lambda: compiled(rank, alone))
    job.section("unwaited", lambda: unwaited(rank))
    job.section("failing", lambda: with_failing_hooks(rank))
    x = torch.ones(1)
    kept = dist.all_reduce(x, async_op=True)  # outstanding at the stop
    stopped_at = len(job.recorder.collectives)
    for source in reversed(job.sources):
        source.uninstall()
    kept.wait()
    result = {
        "sections": job.sections,
        "plain": plain,
        "after_stop": [row._asdict() for row in job.recorder.collectives[stopped_at:]],
        "layouts": [unknown and str(unknown), str(detect_layout())],
        "groups": [values for table, values in job.recorder.rows if table == "groups"],
        "restored": [a is b for a, b in zip(before, hooked_attributes(), strict=True)],
        "errors": guard.account.errors,
        "depth": job.recorder.open().depth,
    }
    Path(folder, f"{rank}.json").write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.start_processes(
        main, args=(sys.argv[1], f"{sys.argv[1]}/store"), nprocs=WORLD, start_method="fork"
    )  # fork: torch is imported once
