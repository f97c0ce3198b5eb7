"""What frameworks print once about a job: how many ranks it has, how long its sequences are."""

from __future__ import annotations

import re
from math import prod

from ingest.limits import limits

SIGNS = (b"sing world size: ", b" world_size = ", b"seq_length ..", b"device mesh with ")

_WORLD_SIZE = re.compile(
    r"[Uu]sing world size: (\d{1,7})\b|\bConfig mesh_device .{1,60} world_size = (\d{1,7})\b"
)
"""Of Megatron-LM, and of DeepSpeed."""
_SEQUENCE = re.compile(r"^ *(?:seq_length|encoder_seq_length) \.{2,60} (\d{1,9})\s*$")
_MESH_SIZES = re.compile(r"Building \d-D device mesh with \[[^\]]{0,200}\], \[([\d, ]{1,60})\]")
_PARALLELISM = re.compile(
    r"Building device mesh with parallelism: pp=(\d{1,6}), dp_replicate=(\d{1,6}), "
    r"dp_shard=(\d{1,6}), cp=(\d{1,6}), tp=(\d{1,6})\b"
)


class JobFacts:
    """Of one file. `world_size`, `sequence_length`: -1 unknown."""

    def __init__(self) -> None:
        self.world_size = -1
        self.sequence_length = -1

    def add(self, text: str) -> None:
        """A line, without prefixes."""
        if (line := _WORLD_SIZE.search(text)) is not None:
            self._note_size(int(line[1] or line[2]))
        elif (line := _SEQUENCE.search(text)) is not None:
            self.sequence_length = int(line[1])
        elif (line := _MESH_SIZES.search(text)) is not None:
            self._note_size(prod(int(size) for size in line[1].split(",") if size.strip()))
        elif (line := _PARALLELISM.search(text)) is not None:
            self._note_size(prod(map(int, line.groups())))

    def _note_size(self, size: int) -> None:
        if 0 < size <= limits().max_ranks:
            self.world_size = size
