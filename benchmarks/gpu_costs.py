"""What only a CUDA device can show: our device times against torch.profiler's, NCCL's cost."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
import torch.distributed as dist
from step_overhead import Training
from timing import cpu_ns
from torch.profiler import ProfilerActivity, profile

import trace_hooks as th
from trace_hooks.recorder import Recorder
from trace_hooks.ring import Ring
from trace_hooks.sources.collectives import Collectives
from trace_hooks.steps import StepCounter

STEPS = 10


def gpu_costs() -> dict[str, float]:
    """Figures of one device by name; the name says the unit. Needs CUDA."""
    return device_times() | nccl_costs()


def device_times() -> dict[str, float]:
    """Time of the blocks' forward passes by our spans, and of the kernels in them by profiler."""
    training = Training("cuda")
    training.step()
    tokens = training.tokens[0]
    with tempfile.TemporaryDirectory() as folder:
        tracer = th.start(folder, model=training.model, level="blocks")
        for _ in range(STEPS):
            with tracer.step(), torch.no_grad():
                training.model(tokens)
        torch.cuda.synchronize()
        tracer.stop()
        spans = pq.read_table(sorted(Path(folder).glob("*/segments/spans-*.parquet")))
    forward = spans.filter(pc.equal(spans["kind"].cast("string"), "forward"))
    with profile(activities=[ProfilerActivity.CUDA]) as profiler, torch.no_grad():
        for _ in range(STEPS):
            training.model(tokens)
        torch.cuda.synchronize()
    kernels_us = sum(event.self_device_time_total for event in profiler.key_averages())
    return {
        "gpu: forward by our spans, us": pc.sum(forward["dur_ns"]).as_py() / STEPS / 1e3,
        "gpu: kernels by torch.profiler, us": kernels_us / STEPS,
    }


def nccl_costs() -> dict[str, float]:
    """A waited all_reduce over NCCL with one rank, bare and under hooks with a ring."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{folder}/store"
        dist.init_process_group("nccl", init_method=store, rank=0, world_size=1)
        x = torch.ones(4, device="cuda")
        bare = cpu_ns(lambda: dist.all_reduce(x), 500)
        recorder = Recorder()
        recorder.ring = Ring(Path(folder, "ring"), 0, 0)
        source = Collectives(recorder, StepCounter(recorder, int, int))
        source.install()
        hooked = cpu_ns(lambda: dist.all_reduce(x), 500, recorder.spans.clear)
        source.uninstall()
        dist.destroy_process_group()
    return {"gpu: bare NCCL all_reduce, ns": bare, "gpu: NCCL all_reduce, ns": hooked - bare}
