"""A small GPT trained with pipeline, data and tensor parallelism at once, watched by trace_hooks.

    python -m sample_traces.jobs.train_3d --nproc 8 --steps 20
    torchrun --nproc-per-node 8 -m sample_traces.jobs.train_3d --steps 20

gloo on CPU, NCCL on CUDA, the same code. `--fault` makes things go wrong on purpose, see faults.py.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.parallel import loss_parallel
from torch.utils.data import DataLoader

import trace_hooks as th
from sample_traces.jobs.extra_bytes import ExtraBytes
from sample_traces.jobs.faults import Fault
from sample_traces.jobs.inject import Injector
from sample_traces.jobs.launch import init_process_group, launch
from sample_traces.jobs.model import GPTSizes, Sequences, batches, build_stage, token_loss
from sample_traces.jobs.packing import DEALS, Lengths, Packing, by_microbatch, longest_to, padded
from sample_traces.jobs.parallel import (
    build_schedule,
    reduce_norm_and_loss,
    replicate,
    scale_gradients,
    spread,
)
from sample_traces.jobs.prompts import prompt_forward
from sample_traces.jobs.schedules import NAMES, num_stages, stage_indices

MAX_GRAD_NORM = 1.0


def train(options: argparse.Namespace, listener: socket.socket | None = None) -> None:
    """Train on this rank; `listener` comes from our own launcher, torchrun gives none."""
    device = pick_device(options.device)
    torch.set_num_threads(1)
    init_process_group(device, listener)
    names = ("pp", "dp", "tp")
    mesh = init_device_mesh(
        device.type, tuple(getattr(options, n) for n in names), mesh_dim_names=names
    )
    sizes = model_sizes(options)
    ExtraBytes(options.fault, mesh, lambda: injector.step)
    tracer = th.start(
        options.runs,
        model={
            "parameters": sizes.num_parameters,
            "layers": sizes.num_layers,
            "hidden": sizes.width,
            "seq": sizes.seq_len,
        },
        layout=th.ParallelLayout.from_device_mesh(mesh),
    )
    injector = Injector(
        options.fault,
        dist.get_rank(),
        dist.get_world_size(),
        options.seed,
        device,
        lambda fault: tracer.mark("fault", fault.text, fault=fault.kind, rank=fault.rank),
    )
    total = num_stages(options.schedule, options.pp)
    indices = stage_indices(options.schedule, mesh.get_local_rank("pp"), options.pp)
    stages = [build_stage(sizes, index, total, options.seed).to(device) for index in indices]
    modules: list[torch.nn.Module] = []
    for index, stage in zip(indices, stages, strict=True):
        injector.install(stage)
        if options.data_parallel == "ddp":
            modules.append(replicate(stage, mesh))
        else:
            spread(stage, mesh, options.sequence_parallel, options.vocabulary_parallel)
            modules.append(stage)
        tracer.watch(stage, stage=index)
    tracer.prompts(stages, forward=prompt_forward(options.schedule, stages, mesh))
    schedule = build_schedule(
        options.schedule, modules, mesh, device, options.microbatches, token_loss
    )
    parameters = [parameter for stage in stages for parameter in stage.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=options.lr, foreach=False)
    data = batches(make_loader(options, sizes, mesh))
    packing = make_packing(options, mesh)
    num_tokens = options.microbatches * options.batch * options.seq

    gc.collect()
    gc.freeze()  # what is loaded need not be looked through in the middle of a step
    for step in range(options.steps):
        with tracer.step(step):
            injector.begin_step(step)
            tokens = next(data).to(device)
            losses: list[torch.Tensor] = []
            # whole in memory: torch's schedules of 2.10 and 2.11 compare strides between stages
            begin, target = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
            inputs = (begin,) if 0 in indices else ()
            named = {"target": target, "losses": losses} if total - 1 in indices else {}
            if packing is not None:
                rows = packing.of_step(step)
                named["lengths"] = padded(rows)
                tracer.batch(lengths=by_microbatch(rows, options.batch))
            optimizer.zero_grad()
            with loss_parallel() if options.vocabulary_parallel else nullcontext():
                schedule.step(*inputs, **named)
            injector.after_backward(parameters)
            with tracer.span("clip gradients", kind="optimizer"):
                own = torch.stack(losses).mean() if losses else torch.zeros((), device=device)
                norm, loss = reduce_norm_and_loss(parameters, own.detach(), mesh)
                scale_gradients(parameters, (MAX_GRAD_NORM / (norm + 1e-6)).clamp(max=1.0))
            optimizer.step()
            values = {"loss": loss.item(), "grad_norm": norm.item()}
            flops = sizes.step_flops(num_tokens * options.dp)
            tracer.log(tokens=num_tokens, flops=flops, lr=options.lr, **values)
            injector.end_step()
            if options.save_every and step % options.save_every == options.save_every - 1:
                with tracer.span("save", kind="checkpoint"):
                    save(options.save_to, stages, optimizer)
        if dist.get_rank() == 0:
            report(step, values, options.losses)
    tracer.stop()
    dist.destroy_process_group()


def save(folder: Path, stages: Sequence[torch.nn.Module], optimizer: torch.optim.Optimizer) -> None:
    """This rank's part of the model and its optimizer, on the disk before it returns."""
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f"rank-{dist.get_rank()}.tmp"
    with scratch.open("wb") as file:
        states = [stage.state_dict() for stage in stages]
        torch.save({"stages": states, "optimizer": optimizer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(scratch.with_suffix(".pt"))


def pick_device(wanted: str) -> torch.device:
    """Device of this rank: its own GPU where every rank of the host has one, else the CPU. Where
    GPUs are asked for and there are fewer, ranks share them (data parallel by DDP alone)."""
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    enough = torch.cuda.is_available() and torch.cuda.device_count() >= local_ranks
    if wanted == "cpu" or (wanted == "auto" and not enough):
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def model_sizes(options: argparse.Namespace) -> GPTSizes:
    """Sizes of the chosen model."""
    return GPTSizes(options.layers, options.width, options.heads, seq_len=options.seq)


def make_loader(
    options: argparse.Namespace, sizes: GPTSizes, mesh: DeviceMesh
) -> DataLoader[torch.Tensor]:
    """Loader of this rank's batches; equal on the pp and tp ranks of one dp rank.

    A slow-loader fault that names another rank is not this one's.
    """
    per_step = options.microbatches * options.batch
    seed = options.seed * mesh["dp"].size() + mesh.get_local_rank("dp")
    faults = [fault for fault in options.fault if fault.rank in (None, dist.get_rank())]
    dataset = Sequences(sizes, seed, options.steps * per_step, per_step, faults)
    return DataLoader(dataset, batch_size=per_step, num_workers=options.workers)


def make_packing(options: argparse.Namespace, mesh: DeviceMesh) -> Packing | None:
    """How long the sequences of this replica are; None: a row is one sequence."""
    if options.lengths is None:
        return None
    replica = mesh.get_local_rank("dp"), mesh["dp"].size()
    rows = options.microbatches * options.batch
    return Packing(
        options.lengths,
        options.deal,
        options.seed,
        replica,
        rows,
        options.seq,
        options.longest_to,
    )


def report(step: int, values: dict[str, float], losses: Path | None) -> None:
    """One line on the screen and one JSON line in the file of losses."""
    print(f"step {step} loss {values['loss']:.4f} grad norm {values['grad_norm']:.3f}", flush=True)
    if losses is not None:
        with losses.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **values}) + "\n")


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Command line; a wrong one ends the process with a sentence and code 2."""
    parser = argparse.ArgumentParser(prog="train_3d", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--nproc", type=int, help="start that many ranks here (without it: started by torchrun)")
    add("--pp", type=int, default=2, help="pipeline ranks")
    add("--dp", type=int, default=2, help="data-parallel ranks (FSDP2)")
    add("--tp", type=int, default=2, help="tensor-parallel ranks")
    add("--data-parallel", choices=("fsdp", "ddp"), default="fsdp", help="ddp: with --tp 1")
    add("--schedule", choices=NAMES, default="1f1b")
    add("--sequence-parallel", action="store_true", help="norms and residuals sharded over tp")
    add("--vocabulary-parallel", action="store_true", help="head and loss sharded over tp")
    add("--steps", type=int, default=20)
    add("--microbatches", type=int, default=4, help="per step")
    add("--batch", type=int, default=4, help="sequences per micro-batch")
    add("--layers", type=int, default=GPTSizes.num_layers)
    add("--width", type=int, default=GPTSizes.width)
    add("--heads", type=int, default=GPTSizes.num_heads)
    add("--seq", type=int, default=GPTSizes.seq_len, help="tokens per sequence")
    add("--lengths", help="rows hold sequences of such lengths, as lognormal,200,0.8; packing.py")
    add("--deal", choices=DEALS, default="drawn", help="how sequences come to their rows")
    add("--longest-to", metavar="REPLICA@STEP", help="who gets the longest rows from a step on")
    add("--lr", type=float, default=1e-3)
    add("--seed", type=int, default=1)
    add("--workers", type=int, default=0, help="processes of the data loader")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--nice", type=int, default=0, help="let other processes go first, up to 19")
    add("--fault", action="append", default=[], help="such as slow-rank=5,x=1.6,from=8")
    add("--runs", default="runs", help="folder the run is written to")
    add("--save-every", type=int, default=0, help="steps from a checkpoint to the next; 0: none")
    add("--save-to", type=Path, default=Path("checkpoints"), help="folder of the checkpoints")
    add("--losses", type=Path, help="append a JSON line per step to this file (rank 0)")
    options = parser.parse_args(arguments)
    try:
        options.fault = [Fault.parse(text) for text in options.fault if text]
        options.longest_to = longest_to(options.longest_to) if options.longest_to else None
        options.lengths = Lengths.parse(options.lengths) if options.lengths else None
        model_sizes(options)
    except ValueError as error:
        parser.error(str(error))
    world = options.pp * options.dp * options.tp
    given = options.nproc or int(os.environ.get("WORLD_SIZE", "0"))
    if given != world:
        parser.error(
            f"pp {options.pp} x dp {options.dp} x tp {options.tp} is {world} ranks, not {given}: "
            f"give --nproc {world} or start it with torchrun --nproc-per-node {world}"
        )
    if options.data_parallel == "ddp" and options.tp > 1:
        parser.error(f"DDP with tensor parallel over {options.tp} ranks is not built; give --tp 1")
    for fault in options.fault:
        named = max(rank for rank in (fault.rank, fault.peer, 0) if rank is not None)
        if named >= world:
            parser.error(f"fault {fault.kind} names rank {named} of {world}; give 0 to {world - 1}")
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
