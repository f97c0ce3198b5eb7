"""Process groups as PyTorch describes them: who is in them, along which axis, in which layout."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ingest.limits import limits
from ingest.readers.base import Sink
from ingest.readers.tables.rows import rows
from ingest.readers.tables.torch_names import CommArgs
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import UNKNOWN

_AXIS_WORDS = (
    ("ep", re.compile(r"expert|(^|_)e[tmd]*p(_|$)")),
    ("pp", re.compile(r"pipeline|(^|_)pp(_|$)")),
    ("cp", re.compile(r"context|(^|_)cp(_|$)")),
    ("dp_replicate", re.compile(r"dp_replicate|hsdp_replicate|(^|_)replicate(_|$)")),
    ("dp_shard", re.compile(r"dp_shard|fsdp|(^|_)shard(_|$)")),
    ("dp", re.compile(r"data_parallel|(^|_)dp(_|$)")),
    ("tp", re.compile(r"tensor|(^|_)tp(_|$)")),
)
_MOST_MEMBERS = 1 << 20
"""Members of groups that one file may describe by start and stride alone."""
_TP_AND_CP = re.compile(r"tensor_and_context_parallel_group")
_WITH_CP = re.compile(r"_WITH_CP$")
_KIND_BY_AXIS = {axis: f"{axis}_comm" for axis in ("tp", "pp", "dp", "ep", "cp")}


@dataclass(frozen=True)
class Group:
    """A process group as one file describes it; ranks in group order, empty where unknown."""

    name: str
    desc: str
    ranks: tuple[int, ...]
    axis: str

    @cached_property
    def group_id(self) -> int:
        """Same on every member: names and ranks are, in one job."""
        digest = hashlib.sha256(f"{self.name}|{self.ranks}".encode("utf-8", "replace")).digest()
        return int.from_bytes(digest[:8], "big") >> 1 or 1

    @property
    def kind(self) -> str:
        """Kind of the spans of its communication."""
        return _KIND_BY_AXIS.get(self.axis, "other_comm")


def write_groups(sink: Sink, rank: int, groups: Sequence[Group]) -> None:
    """A row of `groups` for each of these."""
    columns = {
        "rank": rank,
        "group_id": [group.group_id for group in groups],
        "name": [group.name for group in groups],
        "desc": [group.desc for group in groups],
        "axis": [group.axis for group in groups],
        "ranks": [list(group.ranks) for group in groups],
    }
    if groups:
        sink.add_rows("groups", rank, rows("groups", len(groups), columns))


class DistributedInfo:
    """`distributedInfo` of a file, every field of which may be absent or of another type."""

    def __init__(self, data: object) -> None:
        known: Mapping[str, Any] = data if isinstance(data, dict) else {}
        self.rank = whole(known.get("rank"))
        self.world_size = whole(known.get("world_size")) or UNKNOWN
        configs = known.get("pg_config")
        entries = [c for c in configs if isinstance(c, dict)] if isinstance(configs, list) else []
        self.groups = {str(e.get("pg_name")): _group_of(e) for e in entries}
        self._unfolded = 0

    def layout(self) -> ParallelLayout | None:
        """Layout that the groups' own descriptions spell out; None where they leave any doubt.

        Every axis must be named, sizes must multiply to the world, and every named group must be
        exactly the ranks of the layout.
        """
        return self._layout

    @cached_property
    def _layout(self) -> ParallelLayout | None:
        sizes: dict[str, tuple[int, int]] = {}  # axis -> (stride, size)
        named = [g for g in self.groups.values() if self._axis_word(g.desc) in _LAYOUT_AXES]
        for group in named:
            axis = self._axis_word(group.desc)
            if not group.ranks:
                return None
            stride = group.ranks[1] - group.ranks[0] if len(group.ranks) > 1 else 0
            if sizes.setdefault(axis, (stride, len(group.ranks))) != (stride, len(group.ranks)):
                return None
        by_stride = sorted(sizes.items(), key=lambda item: -item[1][0])
        try:
            layout = ParallelLayout(tuple((axis, size) for axis, (_, size) in by_stride))
        except ValueError:
            return None
        if not named or layout.world_size != self.world_size or layout.world_size < 2:
            return None
        groups = {axis: set(layout.groups(axis)) for axis in sizes}
        fits = all(
            tuple(group.ranks) in groups[self._axis_word(group.desc)]
            for group in named
            if len(group.ranks) > 1
        )
        return layout if fits else None

    def described(self) -> list[Group]:
        """Every group of the file, with its axis."""
        return [replace(g, axis=self._axis(g.desc, g.ranks)) for g in self.groups.values()]

    @cached_property
    def _has_no_cp(self) -> bool:
        """Whether Megatron's groups over TP and CP are its TP groups: CP has size 1."""
        tp = {g.ranks for g in self.groups.values() if _axis_word(g.desc) == "tp"}
        both = {g.ranks for g in self.groups.values() if _TP_AND_CP.fullmatch(g.desc.lower())}
        return len(both) == 1 and both == tp

    def _axis_word(self, desc: str) -> str:
        """Axis a description names; a group over DP with CP is one of DP where CP has size 1."""
        return _axis_word(_WITH_CP.sub("", desc) if self._has_no_cp else desc)

    def group_of(self, args: CommArgs) -> Group | None:
        """Group a collective names; None where it names none."""
        if args.group_name is None and not args.group_ranks:
            return None
        name = "" if args.group_name is None else str(args.group_name)
        known = self.groups.get(name)
        ranks = _ranks(args.group_ranks) or (known.ranks if known else ()) or self._strided(args)
        desc = str(args.group_desc or (known.desc if known else ""))
        return Group(name, desc, ranks, self._axis(desc, ranks))

    def _strided(self, args: CommArgs) -> tuple[int, ...]:
        start, stride, size = args.rank_start, args.rank_stride, args.group_size
        if not (type(start) is int and type(stride) is int and type(size) is int):
            return ()
        fits = start >= 0 and stride > 0 and size > 0
        if not fits or start + stride * size > limits().max_ranks + stride:
            return ()
        self._unfolded += size  # a few bytes of text claim them: they must not fill the memory
        in_order = range(start, start + stride * size, stride)
        return tuple(in_order) if self._unfolded <= _MOST_MEMBERS else ()

    def only_group(self) -> Group | None:
        """The one group that communication without a group can belong to; None in doubt."""
        shared = [group for group in self.groups.values() if len(group.ranks) > 1]
        rank_lists = {group.ranks for group in shared}
        if len(rank_lists) > 1 or (not rank_lists and self.world_size < 2):
            return None
        if len(shared) == 1:
            only = shared[0]
            return Group(only.name, only.desc, only.ranks, self._axis(only.desc, only.ranks))
        ranks = rank_lists.pop() if rank_lists else tuple(range(self.world_size))
        return Group("", "", ranks, self._axis("", ranks))

    def _axis(self, desc: str, ranks: tuple[int, ...]) -> str:
        layout = self.layout()
        axis = layout.axis_of(ranks) if layout is not None else "unknown"
        if axis == "unknown":
            axis = self._axis_word(desc).partition("_")[0] or axis
        if axis == "unknown" and len(ranks) > 1 and len(ranks) == self.world_size:
            return "world"
        return axis


_LAYOUT_AXES = ("pp", "cp", "dp_replicate", "dp_shard", "dp", "tp")


def _axis_word(desc: str) -> str:
    """Axis a description names; empty for none, and for several."""
    axes = [axis for axis, pattern in _AXIS_WORDS if pattern.search(desc.lower())]
    split = {"dp_replicate", "dp_shard"} & set(axes)
    if split:
        axes = [axis for axis in axes if axis != "dp"]
    return axes[0] if len(axes) == 1 else ""


def _group_of(entry: Mapping[str, Any]) -> Group:
    desc = str(entry.get("pg_desc", ""))
    ranks = _ranks(entry.get("ranks"))
    return Group(str(entry.get("pg_name")), "" if desc == "undefined" else desc, ranks, "unknown")


def _ranks(value: object) -> tuple[int, ...]:
    """Ranks from a list or from its text; empty where there are none or the text was cut."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(value) if all(whole(rank) == rank for rank in value) else ()


def whole(value: object) -> int | None:
    """A rank or a size from a number or its text; None for anything else."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        value = int(value)
    return value if type(value) is int and 0 <= value <= limits().max_ranks else None
