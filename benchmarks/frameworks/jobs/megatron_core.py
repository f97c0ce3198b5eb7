"""A GPT of Megatron-core: torchrun --nproc-per-node 4 megatron_core.py [interleaved].

Tensor parallel 2 x pipeline parallel 2, with Megatron's schedules, its optimizer and its loss over
a vocabulary that is split over ranks. torch.cuda is pointed at the CPU (cuda_on_cpu.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.frameworks.jobs import cuda_on_cpu, report

cuda_on_cpu.install()

from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.pipeline_parallel import get_forward_backward_func  # noqa: E402
from megatron.core.timers import Timers  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

VOCABULARY, LENGTH, BATCH, MICROBATCHES, LAYERS, WIDTH = 256, 128, 2, 4, 4, 128
FUSED = (
    "gradient_accumulation_fusion",
    "bias_activation_fusion",
    "masked_softmax_fusion",
    "bias_dropout_fusion",
    "apply_rope_fusion",
)
"""Kernels that need a GPU: switched off."""


def configuration(num_chunks: int | None) -> TransformerConfig:
    return TransformerConfig(
        num_layers=LAYERS,
        hidden_size=WIDTH,
        num_attention_heads=4,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        tensor_model_parallel_size=2,
        pipeline_model_parallel_size=2,
        virtual_pipeline_model_parallel_size=num_chunks,
        pipeline_dtype=torch.float32,
        use_cpu_initialization=True,
        **dict.fromkeys(FUSED, False),
    )


def chunks(config: TransformerConfig, num_chunks: int | None) -> list[Any]:
    """The parts of the model on this rank, with gradients that are reduced over replicas."""
    made = []
    for chunk in range(num_chunks) if num_chunks else (None,):
        place = {} if chunk is None else {"ignore_virtual": False, "vp_stage": chunk}
        model = GPTModel(
            config,
            get_gpt_layer_local_spec(normalization="LayerNorm"),
            vocab_size=VOCABULARY,
            max_sequence_length=LENGTH,
            pre_process=parallel_state.is_pipeline_first_stage(**place),
            post_process=parallel_state.is_pipeline_last_stage(**place),
            parallel_output=True,
            vp_stage=chunk,
        )
        made.append(DistributedDataParallel(config, DistributedDataParallelConfig(), model))
    return made


def batches() -> Iterator[dict[str, torch.Tensor]]:
    """Micro-batches, the same on all ranks of a pipeline."""
    start = 0
    while True:
        rows = torch.arange(start, start + BATCH)[:, None]
        ids = (rows + torch.arange(LENGTH + 1) * (rows % 7 + 1)) % VOCABULARY
        yield {"tokens": ids[:, :-1], "labels": ids[:, 1:]}
        start += BATCH


def forward_step(iterator: Iterator[dict[str, torch.Tensor]], model: Any) -> tuple[Any, Any]:
    """What Megatron calls for each micro-batch."""
    batch = next(iterator)
    positions = torch.arange(LENGTH).expand(BATCH, LENGTH)
    mask = torch.triu(torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool), 1)
    output = model(batch["tokens"], positions, mask, labels=batch["labels"])

    def loss_function(losses: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss = losses.float().mean()
        return loss, {"lm loss": loss.detach().clone()}

    return output, loss_function


def train(config: TransformerConfig, models: list[Any]) -> dict[int, float]:
    """Losses of the steps; none but on the last stage."""
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-3, clip_grad=0.0), models
    )
    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    iterators = [batches() for _ in models]
    one = len(models) == 1
    losses = {}
    for step in range(report.STEPS):
        for model in models:
            model.zero_grad_buffer()
        optimizer.zero_grad()
        logged = get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=iterators[0] if one else iterators,
            model=models[0] if one else models,
            num_microbatches=MICROBATCHES,
            seq_length=LENGTH,
            micro_batch_size=BATCH,
            forward_only=False,
        )
        optimizer.step()
        if logged:
            losses[step] = float(torch.stack([of["lm loss"] for of in logged]).mean())
    return losses


def main(num_chunks: int | None) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(2, 2, num_chunks)
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = configuration(num_chunks)
    config.timers = Timers(0, "minmax")
    models = chunks(config, num_chunks)
    if report.WITH_LINES:
        import trace_hooks as th

        th.megatron.install()
    losses = train(config, models)
    report.write(dist.get_rank(), losses, [p for model in models for p in model.parameters()])
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(2 if "interleaved" in sys.argv else None)
