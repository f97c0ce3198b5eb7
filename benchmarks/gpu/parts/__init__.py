"""The parts of the kit, in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One module of this package; its `measure(place)` stores its figures.

    `shows`: a sentence for docs/gpu.md and the table.
    """

    letter: str
    module: str
    shows: str


PARTS = (
    Part("a", "clocks", "times of CUDA events against the kernel times of torch.profiler"),
    Part("b", "cost", "what recording costs a step: GPU, wall and CPU time"),
    Part("c", "memory", "memory that the hooks take on the device and on the host"),
    Part("d", "nccl", "collectives over NCCL: the ring, enqueue times, Flight Recorder, DDP"),
    Part("e", "losses", "losses are bitwise the same with hooks on and off"),
    Part("f", "content", "attention, activations, gradients and logits of fused kernels"),
    Part("g", "capture", "kernel capture on demand"),
    Part("h", "failures", "out of memory, graph capture, a broken device: as without hooks"),
    Part("i", "devices", "UUIDs, MIG and CUDA_VISIBLE_DEVICES"),
    Part("j", "nvml", "reading NVML once a second"),
    Part("k", "calls", "what the calls into CUDA that recording makes cost the host"),
    Part("l", "experts", "loads of experts: waits, counts, losses, CUDA graphs, cost"),
)
