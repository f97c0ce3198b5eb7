"""What frameworks print once about a job: its ranks and parallel sizes, the length of sequences."""

from __future__ import annotations

import re
from math import prod

from ingest.limits import limits
from trace_hooks.layout import ParallelLayout

SIGNS = (
    b"sing world size: ",
    b" world_size = ",
    b"seq_length ..",
    b"use_tp_pp_dp_mapping ..",
    b"device mesh with ",
)

_WORLD_SIZE = re.compile(
    r"[Uu]sing world size: (\d{1,7})\b|\bConfig mesh_device .{1,60} world_size = (\d{1,7})\b"
)
"""Of Megatron-LM, and of DeepSpeed."""
_MEGATRON_SIZES = {
    "pp": re.compile(r"(?<!encoder-)pipeline-model-parallel[- ]size: (\d{1,7})\b"),
    "dp": re.compile(r"\bdata-parallel[- ]size: (\d{1,7})\b"),
    "cp": re.compile(r"(?:context|sequence)-parallel size: (\d{1,7})\b"),
    "tp": re.compile(r"(?<!encoder-)tensor-model-parallel[- ]size: (\d{1,7})\b"),
}
"""The axis that varies slowest with the rank first, as Megatron-LM has it by default."""
_OTHER_ORDER = re.compile(r"^ *use_tp_pp_dp_mapping \.{2,60} True\s*$")
_SEQUENCE = re.compile(r"^ *(?:seq_length|encoder_seq_length) \.{2,60} (\d{1,9})\s*$")
_MESH_SIZES = re.compile(r"Building \d-D device mesh with \[[^\]]{0,200}\], \[([\d, ]{1,60})\]")
_TITAN_AXES = ("pp", "dp_replicate", "dp_shard", "cp", "tp")
_PARALLELISM = re.compile(
    r"Building device mesh with parallelism: "
    + ", ".join(rf"{axis}=(?P<{axis}>\d{{1,7}})" for axis in _TITAN_AXES)
)


class JobFacts:
    """Of one file. `world_size`, `sequence_length`: -1 unknown; `layout`: None unknown."""

    def __init__(self) -> None:
        self.world_size = -1
        self.sequence_length = -1
        self.layout: ParallelLayout | None = None

    def add(self, text: str) -> None:
        """A line, without prefixes."""
        if (line := _WORLD_SIZE.search(text)) is not None:
            self._note_size(int(line[1] or line[2]))
            found = {axis: form.search(text) for axis, form in _MEGATRON_SIZES.items()}
            self._note_sizes({axis: int(size[1]) for axis, size in found.items() if size})
        elif (line := _SEQUENCE.search(text)) is not None:
            self.sequence_length = int(line[1])
        elif (line := _MESH_SIZES.search(text)) is not None:
            self._note_size(prod(int(size) for size in line[1].split(",") if size.strip()))
        elif (line := _PARALLELISM.search(text)) is not None:
            sizes = {axis: int(size) for axis, size in line.groupdict().items()}
            self._note_size(prod(sizes.values()))
            self._note_sizes(sizes)
        elif _OTHER_ORDER.search(text) is not None:
            self.layout = None

    def _note_size(self, size: int) -> None:
        if 0 < size <= limits().max_ranks:
            self.world_size = size

    def _note_sizes(self, sizes: dict[str, int]) -> None:
        """Take over a layout that makes the world; axes of size 1 say nothing."""
        if {"pp", "tp"} <= sizes.keys() and prod(sizes.values()) == self.world_size:
            axes = tuple((axis, size) for axis, size in sizes.items() if size > 1)
            self.layout = ParallelLayout(axes or (("dp", 1),))
