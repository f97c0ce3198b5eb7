"""torchtitan's debug model: torchrun --nproc-per-node N torchtitan_debug.py fsdp|hsdp|tp.

torchtitan runs on GPUs. So that its Trainer runs here, these things differ from its own debug
model: its device is the CPU; attention is PyTorch's own (FlexAttention has no backward on CPUs);
parallel dimensions are DTensor's (`partial_dtensor`: its default does not run with torch 2.13);
FSDP sums gradients (gloo has no other reduction that it asks for); timeouts of groups stay as they
are (`torch.distributed.set_timeout` is newer than torch 2.13); kernels of its expert parallelism,
which need Triton, are absent, and so is activation checkpointing; ids are made up. Its pipelines do
not run: they pass micro-batches to a schedule as torch 2.13 does not take them.
"""

from __future__ import annotations

import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch._utils

from benchmarks.frameworks.jobs import report


class Absent(types.ModuleType):
    """A module whose names are all None."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


KERNELS = "torchtitan.distributed.minimal_async_ep.kernels"
sys.modules[KERNELS] = Absent(KERNELS)
torch._utils._get_available_device_type = lambda: "cpu"

from torch.distributed.fsdp import FSDPModule  # noqa: E402
from torchtitan.components import metrics  # noqa: E402
from torchtitan.components.dataloader import ParallelAwareDataloader  # noqa: E402
from torchtitan.components.loss import CrossEntropyLoss  # noqa: E402
from torchtitan.components.optimizer import default_adamw  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.config import DebugConfig, ParallelismConfig, TrainingConfig  # noqa: E402
from torchtitan.distributed import utils as dist_utils  # noqa: E402
from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402
from torchtitan.models.llama3 import model_registry  # noqa: E402
from torchtitan.tools import utils  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402

VOCABULARY, LENGTH, BATCH, MICROBATCHES = 2048, 128, 4, 2
LAYOUTS = {
    "fsdp": {"data_parallel_shard_degree": 2},
    "hsdp": {"data_parallel_replicate_degree": 2, "data_parallel_shard_degree": 2},
    "tp": {"data_parallel_shard_degree": 2, "tensor_parallel_degree": 2},
}


class NoTokenizer(BaseTokenizer):
    """Of data that are ids already."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        """Nothing."""

    def __init__(self, config: Config, **more: Any) -> None:
        super().__init__()

    def encode(self, *args: Any, **kwargs: Any) -> list[int]:
        """Nothing is text."""
        return []

    def decode(self, *args: Any, **kwargs: Any) -> str:
        """Nothing is text."""
        return ""

    def get_vocab_size(self) -> int:
        """Number of ids."""
        return VOCABULARY


class Ids(torch.utils.data.IterableDataset[Any]):
    """Sequences of numbers, other ones for each replica."""

    def __init__(self, first: int, step: int) -> None:
        self.first, self.step = first, step

    def __iter__(self) -> Iterator[Any]:
        item = self.first
        while True:
            ids = (item + torch.arange(LENGTH + 1) * (item % 7 + 1)) % VOCABULARY
            yield {"input": ids[:-1]}, ids[1:]
            item += self.step


class IdsLoader(ParallelAwareDataloader):
    """torchtitan's loader, of such ids."""

    @dataclass(kw_only=True, slots=True)
    class Config(ParallelAwareDataloader.Config):
        """Nothing of its own."""

    def __init__(
        self, config: Config, dp_world_size: int, dp_rank: int, local_batch_size: int, **more: Any
    ) -> None:
        data = Ids(dp_rank, dp_world_size)
        super().__init__(data, dp_rank, dp_world_size, batch_size=local_batch_size)


def configuration(layout: str, folder: str) -> Trainer.Config:
    spec = model_registry("debugmodel")
    for layer in spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    return Trainer.Config(
        model_spec=spec,
        dump_folder=folder,
        loss=CrossEntropyLoss.Config(global_vocab_size=VOCABULARY),
        tokenizer=NoTokenizer.Config(),
        dataloader=IdsLoader.Config(),
        optimizer=default_adamw(lr=8e-4),
        training=TrainingConfig(
            local_batch_size=BATCH,
            global_batch_size=BATCH * MICROBATCHES * (4 if layout == "hsdp" else 2),
            seq_len=LENGTH,
            steps=report.STEPS,
            disable_cuda_graphs=True,
        ),
        metrics=metrics.MetricsProcessor.Config(log_freq=1),
        parallelism=ParallelismConfig(spmd_backend="partial_dtensor", **LAYOUTS[layout]),
        activation_checkpoint=None,
        debug=DebugConfig(seed=1),  # else it draws one
    )


class NoDeviceMemory:
    """What torchtitan reads of a GPU's memory."""

    device_name, device_capacity_gib = "CPU", 0.0

    def __init__(self, device: Any) -> None:
        pass

    def reset_peak_stats(self) -> None:
        """Nothing to reset."""

    def get_peak_stats(self) -> metrics.DeviceMemStats:
        """Nothing used."""
        return metrics.DeviceMemStats(*[0] * len(metrics.DeviceMemStats._fields))


class Losses:
    """Keeps what torchtitan logs."""

    def __init__(self, trainer: Trainer) -> None:
        self.by_step: dict[int, float] = {}
        self._log = trainer.metrics_processor.log
        trainer.metrics_processor.log = self.log

    def log(self, step: int, global_avg_loss: float, *args: Any, **more: Any) -> None:
        """Keep, and log as before."""
        self.by_step[step] = global_avg_loss
        self._log(step, global_avg_loss, *args, **more)


def main(layout: str) -> None:
    torch.set_num_threads(1)
    utils.device_module.set_device = lambda device: None
    utils.device_module.current_device = lambda: 0
    dist_utils.set_pg_timeouts = lambda **timeouts: None
    metrics.DeviceMemoryMonitor = NoDeviceMemory
    if report.WITH_LINES:
        import trace_hooks as th

        th.torchtitan.install()
    with tempfile.TemporaryDirectory() as folder:
        trainer = configuration(layout, folder).build()
        for part in trainer.model_parts:
            for module in part.modules():
                if isinstance(module, FSDPModule):
                    module.set_force_sum_reduction_for_comms(True)
        losses = Losses(trainer)
        trainer.train()
        parameters = [p for part in trainer.model_parts for p in part.parameters()]
        report.write(torch.distributed.get_rank(), losses.by_step, parameters)
        trainer.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
