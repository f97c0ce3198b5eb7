"""DeepSpeed: torchrun --nproc-per-node N deepspeed_engine.py zero1|zero2|zero3|pipeline."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import deepspeed
import torch
from deepspeed.pipe import PipelineModule
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.frameworks.jobs import report
from sample_traces.jobs.model import GPTSizes, build_stage, token_loss

SIZES = GPTSizes(num_layers=4, width=192, num_heads=6, seq_len=128)
BATCH = 4


class WithLoss(nn.Module):
    """The small GPT; returns its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.model = build_stage(SIZES, 0, 1, seed=1)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(B, T) and (B, T) -> ()"""
        return token_loss(self.model(ids), labels)


def data(num_batches: int) -> TensorDataset:
    """Ids and labels of sequences."""
    start = torch.arange(num_batches * BATCH)[:, None]
    ids = (start + torch.arange(SIZES.seq_len + 1) * (start % 7 + 1)) % SIZES.vocabulary
    return TensorDataset(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())


def config(microbatches: int, stage: int) -> dict[str, Any]:
    """As a user writes it; torch's Adam, because DeepSpeed compiles its own."""
    return {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": microbatches,
        "gradient_clipping": 1.0,
        "steps_per_print": 10_000,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-3, "warmup_num_steps": 4}},
        "zero_optimization": {"stage": stage},
    }


def watch(engine: Any) -> None:
    """The lines of docs/frameworks.md."""
    if report.WITH_LINES:
        import trace_hooks as th

        th.deepspeed.watch(engine)


def train(engine: Any, microbatches: int, folder: str) -> dict[int, float]:
    """Steps with gradient accumulation, a save and an evaluation between them."""
    world = torch.distributed.get_world_size()
    samples = data((report.STEPS + 1) * microbatches * world)
    sampler = torch.utils.data.DistributedSampler(samples, shuffle=False)
    batches = iter(DataLoader(samples, BATCH, sampler=sampler))
    losses = {}
    for step in range(report.STEPS):
        of_step = []
        for _ in range(microbatches):
            loss = engine(*next(batches))
            engine.backward(loss)
            engine.step()
            of_step.append(loss.detach())
        losses[step] = float(torch.stack(of_step).mean())
        if step == report.STEPS // 2:
            engine.save_checkpoint(folder)
            engine.eval()
            with torch.no_grad():
                engine(*next(iter(DataLoader(samples, BATCH))))
            engine.train()
    return losses


def train_pipeline(engine: Any, folder: str) -> dict[int, float]:
    """Batches of a pipeline, a save and an evaluation between them."""
    losses = {}
    for step in range(report.STEPS):
        losses[step] = float(engine.train_batch())
        if step == report.STEPS // 2:
            engine.save_checkpoint(folder)
            engine.eval_batch(iter(DataLoader(data(8), BATCH)))
    return losses


def pipeline(microbatches: int) -> Any:
    """An engine of two stages; the rest of the ranks are replicas."""
    torch.manual_seed(1)
    whole = build_stage(SIZES, 0, 1, seed=1)
    head = nn.Sequential(whole.norm, whole.head)
    layers = [whole.embedding, *whole.blocks.values(), head]
    module = PipelineModule(layers, num_stages=2, loss_fn=token_loss, partition_method="uniform")
    samples = data((report.STEPS + 1) * microbatches * 2)
    made = deepspeed.initialize(
        model=module,
        model_parameters=list(module.parameters()),
        training_data=samples,
        config=config(microbatches, stage=1),
    )
    return made[0]


def main(kind: str) -> None:
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    rank = torch.distributed.get_rank()
    with tempfile.TemporaryDirectory() as own:
        folders = [own]
        torch.distributed.broadcast_object_list(folders)
        if kind == "pipeline":
            engine = pipeline(microbatches=4)
            watch(engine)
            losses = train_pipeline(engine, folders[0])
        else:
            model = WithLoss()
            engine = deepspeed.initialize(
                model=model, model_parameters=model.parameters(), config=config(2, int(kind[-1]))
            )[0]
            watch(engine)
            losses = train(engine, 2, folders[0])
        parameters = engine.module.parameters()  # of ZeRO-3, the part that this rank keeps
        report.write(rank, losses, [getattr(p, "ds_tensor", p) for p in parameters])
        torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
