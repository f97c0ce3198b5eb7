"""A small GPT with experts, trained with expert, data and pipeline parallelism, watched by
trace_hooks.

    python -m sample_traces.jobs.train_moe --nproc 8 --steps 20
    python -m sample_traces.jobs.train_moe --nproc 8 --pp 1 --ep 4 --fault hot-expert=3,from=10

The ranks of a pipeline stage each have data of their own; `--ep` of them at a time share a set of
all experts and send each other tokens, `--dp` such sets are copies. `--groups 2` lets two halves of
each micro-batch take turns: while one is on its way, the other is worked on.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import trace_hooks as th
from sample_traces.jobs.experts import (
    ExpertSizes,
    balance,
    shard_experts,
    take_longer,
    with_experts,
)
from sample_traces.jobs.faults import Fault
from sample_traces.jobs.inject import Injector
from sample_traces.jobs.launch import init_process_group, launch
from sample_traces.jobs.model import GPTSizes, batches, build_stage, token_loss
from sample_traces.jobs.parallel import (
    build_schedule,
    reduce_norm_and_loss,
    scale_gradients,
    spread,
)
from sample_traces.jobs.schedules import NAMES, num_stages, stage_indices
from sample_traces.jobs.train_3d import (
    MAX_GRAD_NORM,
    make_loader,
    model_sizes,
    pick_device,
    report,
)

BALANCING = 1e-3
"""What a step adds to the scores of experts that had less than their share of the tokens."""

UNFIT = ("late-rank", "slow-link", "slow-network")
"""Faults of parts that this job lacks."""


def train(options: argparse.Namespace, listener: socket.socket | None = None) -> None:
    """Train on this rank; `listener` comes from our own launcher, torchrun gives none."""
    device = pick_device(options.device)
    torch.set_num_threads(1)
    init_process_group(device, listener)
    replicas = options.dp * options.ep
    mesh = init_device_mesh(
        device.type, (options.pp, replicas, 1), mesh_dim_names=("pp", "dp", "tp")
    )
    expert_mesh = init_device_mesh(
        device.type, (options.pp, options.dp, options.ep), mesh_dim_names=("pp", "edp", "ep")
    )
    sizes, experts = model_sizes(options), expert_sizes(options)
    tracer = th.start(
        options.runs,
        model={
            "layers": sizes.num_layers,
            "hidden": sizes.width,
            "seq": sizes.seq_len,
            "experts": experts.num_experts,
            "top_k": experts.top_k,
            "microbatch_groups": options.groups,
        },
        layout=th.ParallelLayout.from_sizes(pp=options.pp, dp=replicas, ep=options.ep),
    )
    injector = Injector(
        options.fault,
        dist.get_rank(),
        dist.get_world_size(),
        options.seed,
        device,
        lambda fault: tracer.mark("fault", fault.text, **{"fault": fault.kind, **fault.target}),
    )
    total = num_stages(options.schedule, options.pp)
    indices = stage_indices(options.schedule, mesh.get_local_rank("pp"), options.pp)
    stages = [build_stage(sizes, index, total, options.seed) for index in indices]
    local = experts.local(expert_mesh.get_local_rank("ep"))
    for index, stage in zip(indices, stages, strict=True):
        with_experts(stage, sizes, experts, expert_mesh, options.seed, options.groups)
        stage.to(device)
        take_longer(stage, *options.wait_ms)
        injector.install(stage)
        shard_experts(stage, expert_mesh)
        spread(stage, mesh, sequence_parallel=False)
        tracer.watch(stage, stage=index)
        for block in stage.blocks.values():
            tracer.router(block.router, experts.num_experts, chosen=1, local=local, bias="bias")
    schedule = build_schedule(
        options.schedule, stages, mesh, device, options.microbatches, token_loss
    )
    parameters = [parameter for stage in stages for parameter in stage.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=options.lr, foreach=False)
    data = batches(make_loader(options, sizes, mesh))
    num_tokens = options.microbatches * options.batch * options.seq

    gc.collect()
    gc.freeze()  # what is loaded need not be looked through in the middle of a step
    for step in range(options.steps):
        with tracer.step(step):
            injector.begin_step(step)
            tokens = next(data).to(device)
            losses: list[torch.Tensor] = []
            begin, target = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
            inputs = (begin,) if 0 in indices else ()
            last = {"target": target, "losses": losses} if total - 1 in indices else {}
            optimizer.zero_grad()
            schedule.step(*inputs, **last)
            injector.after_backward(parameters)
            with tracer.span("clip gradients", kind="optimizer"):
                own = torch.stack(losses).mean() if losses else torch.zeros((), device=device)
                norm, loss = reduce_norm_and_loss(parameters, own.detach(), mesh)
                scale_gradients(parameters, (MAX_GRAD_NORM / (norm + 1e-6)).clamp(max=1.0))
            optimizer.step()
            with tracer.span("balance experts", kind="optimizer"):
                # in the first step torch finds the shapes of stages by a forward on any numbers
                balance(stages, mesh["dp"].get_group(), BALANCING if step else 0.0)
            values = {"loss": loss.item(), "grad_norm": norm.item()}
            flops = experts.step_flops(sizes, num_tokens * replicas)
            tracer.log(tokens=num_tokens, flops=flops, lr=options.lr, **values)
            injector.end_step()
        if dist.get_rank() == 0:
            report(step, values, options.losses)
    tracer.stop()
    dist.destroy_process_group()


def expert_sizes(options: argparse.Namespace) -> ExpertSizes:
    """Experts of the chosen model."""
    return ExpertSizes(options.experts, options.top_k, options.ep)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Command line; a wrong one ends the process with a sentence and code 2."""
    parser = argparse.ArgumentParser(prog="train_moe", description=(__doc__ or "").split("\n\n")[0])
    add = parser.add_argument
    add("--nproc", type=int, help="start that many ranks here (without it: started by torchrun)")
    add("--pp", type=int, default=2, help="pipeline ranks")
    add("--dp", type=int, default=2, help="copies of each expert (FSDP2)")
    add("--ep", type=int, default=2, help="ranks over which the experts of a layer are spread")
    add("--experts", type=int, default=ExpertSizes.num_experts, help="per layer")
    add("--top-k", type=int, default=ExpertSizes.top_k, help="experts of each token")
    add("--groups", type=int, default=1, help="parts of a micro-batch that take turns (ping-pong)")
    add(
        "--wait-ms",
        type=float,
        nargs=2,
        default=(0.0, 0.0),
        metavar=("ATTENTION", "EXPERTS"),
        help="each forward of attention and of experts waits so long, as for a device",
    )
    add("--schedule", choices=NAMES, default="1f1b")
    add("--steps", type=int, default=20)
    add("--microbatches", type=int, default=4, help="per step")
    add("--batch", type=int, default=4, help="sequences per micro-batch")
    add("--layers", type=int, default=GPTSizes.num_layers)
    add("--width", type=int, default=64)
    add("--heads", type=int, default=4)
    add("--seq", type=int, default=GPTSizes.seq_len, help="tokens per sequence")
    add("--lr", type=float, default=1e-3)
    add("--seed", type=int, default=1)
    add("--workers", type=int, default=0, help="processes of the data loader")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--nice", type=int, default=0, help="let other processes go first, up to 19")
    add("--fault", action="append", default=[], help="such as hot-expert=3,from=8")
    add("--runs", default="runs", help="folder the run is written to")
    add("--losses", type=Path, help="append a JSON line per step to this file (rank 0)")
    options = parser.parse_args(arguments)
    try:
        options.fault = [Fault.parse(text) for text in options.fault if text]
        model_sizes(options)
        expert_sizes(options)
    except ValueError as error:
        parser.error(str(error))
    world = options.pp * options.dp * options.ep
    given = options.nproc or int(os.environ.get("WORLD_SIZE", "0"))
    if given != world:
        parser.error(
            f"pp {options.pp} x dp {options.dp} x ep {options.ep} is {world} ranks, not {given}: "
            f"give --nproc {world} or start it with torchrun --nproc-per-node {world}"
        )
    if not 1 <= options.groups <= options.batch:
        parser.error(
            f"{options.batch} sequences do not make {options.groups} groups; raise --batch"
        )
    for fault in options.fault:
        if fault.kind in UNFIT:
            parser.error(f"fault {fault.kind} is not of this job; use train_3d")
        if fault.rank is not None and fault.rank >= world:
            parser.error(
                f"fault {fault.kind} names rank {fault.rank} of {world}; give 0 to {world - 1}"
            )
        if fault.expert is not None and fault.expert >= options.experts:
            parser.error(
                f"fault {fault.kind} names expert {fault.expert} of {options.experts}; give 0 to "
                f"{options.experts - 1}"
            )
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, or start the ranks that train."""
    options = parse_options(arguments)
    if options.nice > 0:
        os.nice(options.nice)
    if options.nproc:
        return launch(train, options, options.nproc)
    train(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
