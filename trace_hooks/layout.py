"""How the global ranks of a job are arranged over parallel axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

AXES = ("pp", "dp_replicate", "dp", "dp_shard", "cp", "tp")
"""Axes whose sizes multiply to the world size. dp = dp_replicate x dp_shard, never all three."""

EXPERT_AXES = ("ep", "etp")
"""A second factorisation of the same ranks: kept separately, never multiplied in.

The ranks of a pipeline stage, in order, are edp x ep x etp: etp varies fastest, and the ranks along
edp hold the same experts. So Megatron-core and torchtitan arrange them.
"""

MOST_RANKS = 1 << 20
"""Each rank lists them all to find its groups."""


@dataclass(frozen=True)
class ParallelLayout:
    """Sizes of the parallel axes, slowest first as in DeviceMesh, over ranks 0 .. world - 1.

    `axes`: ((name, size), ...), slowest varying first. `experts`: sizes of ep and etp.
    `mesh`: global ranks in row-major order of `axes`, where they are not simply 0, 1, 2, ...
    Raises ValueError naming the value and the remedy.
    """

    axes: tuple[tuple[str, int], ...]
    experts: tuple[tuple[str, int], ...] = ()
    mesh: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        for name, size in self.axes + self.experts:
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"axis {name} has size {size!r}; give a whole number from 1")
        for name in names:
            if name not in AXES:
                raise ValueError(f"unknown parallel axis {name!r}; known: {', '.join(AXES)}")
        for name, _ in self.experts:
            if name not in EXPERT_AXES:
                raise ValueError(f"unknown expert axis {name!r}; known: {', '.join(EXPERT_AXES)}")
        if len(set(names)) != len(names):
            raise ValueError(f"an axis is named twice in {names}; name each once")
        if "dp" in names and ("dp_shard" in names or "dp_replicate" in names):
            raise ValueError("give either dp or dp_replicate x dp_shard, not both")
        if self.world_size > MOST_RANKS:
            raise ValueError(f"the layout {self} has more than {MOST_RANKS} ranks; check its sizes")
        if self.mesh is not None and (
            len(self.mesh) != self.world_size or len(set(self.mesh)) != len(self.mesh)
        ):
            raise ValueError(
                f"the mesh lists {len(set(self.mesh))} ranks, the axes {self} make "
                f"{self.world_size}; name every rank once"
            )

    def __str__(self) -> str:
        experts = "".join(f", {name} {size}" for name, size in self.experts)
        return " x ".join(f"{name} {size}" for name, size in self.axes) + experts

    @property
    def world_size(self) -> int:
        """Product of the axes."""
        return math.prod(size for _, size in self.axes)

    def size(self, axis: str) -> int:
        """Size of `axis`, 1 where it is absent; dp is dp_replicate x dp_shard."""
        sizes = dict(self.axes)
        if axis == "dp" and "dp" not in sizes:
            return sizes.get("dp_replicate", 1) * sizes.get("dp_shard", 1)
        return sizes.get(axis, dict(self.experts).get(axis, 1))

    @cached_property
    def _position(self) -> dict[int, int]:
        ranks = self.mesh if self.mesh is not None else range(self.world_size)
        return {rank: position for position, rank in enumerate(ranks)}

    def has(self, rank: int) -> bool:
        """Whether the layout has `rank`."""
        return rank in self._position

    def coords(self, rank: int) -> dict[str, int]:
        """Index of `rank` on every axis of the layout, of experts too, plus dp where it is split.

        Raises ValueError for a rank outside the layout.
        """
        try:
            rest = self._position[rank]
        except KeyError:
            raise ValueError(f"rank {rank} is not in the layout {self}") from None
        by_axis: dict[str, int] = {}
        for name, size in reversed(self.axes):
            rest, by_axis[name] = divmod(rest, size)
        ordered = {name: by_axis[name] for name, _ in self.axes}
        if "dp" not in ordered and ("dp_shard" in ordered or "dp_replicate" in ordered):
            shard = ordered.get("dp_shard", 0)
            ordered["dp"] = ordered.get("dp_replicate", 0) * self.size("dp_shard") + shard
        place = self._expert_places.get(rank)
        return (
            ordered if place is None else ordered | {name: place[name] for name, _ in self.experts}
        )

    def groups(self, axis: str) -> list[tuple[int, ...]]:
        """Global ranks of every group along `axis`; each group in order of the axis.

        `axis` may be ep, etp or edp, too.
        """
        if axis in ("edp", *EXPERT_AXES):
            return self._expert_groups(axis)
        split = axis == "dp" and "dp" not in dict(self.axes)
        along = ("dp_replicate", "dp_shard") if split else (axis,)
        members_by_key: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for rank in self._position:
            coords = self.coords(rank)
            key = tuple(coords[name] for name, _ in self.axes if name not in along)
            members_by_key.setdefault(key, []).append((coords.get(axis, 0), rank))
        return [
            tuple(rank for _, rank in sorted(members))
            for _, members in sorted(members_by_key.items())
        ]

    @cached_property
    def _expert_places(self) -> dict[int, dict[str, int]]:
        """Index of each rank on pp, edp, ep and etp; empty where they do not divide a stage."""
        ep, etp = self.size("ep"), self.size("etp")
        stage_size = self.world_size // self.size("pp")
        if ep * etp == 1 or stage_size % (ep * etp):
            return {}
        index_in: dict[int, int] = {}  # of the next rank of a stage
        places = {}
        faster = math.prod(size for _, size in self.axes[self._pp_at + 1 :])
        for rank, position in self._position.items():
            stage = position // faster % self.size("pp")
            index = index_in.get(stage, 0)
            index_in[stage] = index + 1
            rest, etp_index = divmod(index, etp)
            edp_index, ep_index = divmod(rest, ep)
            places[rank] = {"pp": stage, "edp": edp_index, "ep": ep_index, "etp": etp_index}
        return places

    @property
    def _pp_at(self) -> int:
        names = [name for name, _ in self.axes]
        return names.index("pp") if "pp" in names else -1

    def _expert_groups(self, axis: str) -> list[tuple[int, ...]]:
        members_by_key: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for rank, place in self._expert_places.items():
            key = tuple(index for name, index in place.items() if name != axis)
            members_by_key.setdefault(key, []).append((place[axis], rank))
        return [
            tuple(rank for _, rank in sorted(members))
            for _, members in sorted(members_by_key.items())
        ]

    def axis_of(self, ranks: Iterable[int]) -> str:
        """Axis along which exactly these ranks form a group: tp, cp, dp, pp, ep, etp, world or
        unknown; of an axis of experts only where no other axis has that group.

        Ranks that hold the same experts are replicas (dp). The world is `world` unless one axis
        spans it alone. A single rank is `unknown`.
        """
        wanted = tuple(sorted(ranks))
        if len(wanted) < 2:
            return "unknown"
        return self._axis_by_ranks.get(wanted, "unknown")

    @cached_property
    def _axis_by_ranks(self) -> dict[tuple[int, ...], str]:
        table: dict[tuple[int, ...], str] = {}
        for axis, name in (("edp", "dp"), ("etp", "etp"), ("ep", "ep")):
            table |= {tuple(sorted(group)): name for group in self.groups(axis) if len(group) > 1}
        table[tuple(sorted(self._position))] = "world"
        for axis in ("dp_replicate", "dp_shard", "dp", "pp", "cp", "tp"):
            if self.size(axis) > 1:
                short = "dp" if axis.startswith("dp") else axis
                table |= {tuple(sorted(group)): short for group in self.groups(axis)}
        return table

    def to_json(self) -> dict[str, Any]:
        """Plain dict: {"axes": {...slowest first}, "experts": {...}, "mesh": [...] or None}."""
        mesh = None if self.mesh is None else list(self.mesh)
        return {"axes": dict(self.axes), "experts": dict(self.experts), "mesh": mesh}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ParallelLayout:
        """Inverse of to_json; raises ValueError."""
        axes, experts, mesh = data.get("axes"), data.get("experts") or {}, data.get("mesh")
        if not isinstance(axes, Mapping) or not isinstance(experts, Mapping):
            raise ValueError(f"a layout needs axes with sizes, got {data!r}")
        if mesh is not None and not (
            isinstance(mesh, list) and all(type(rank) is int for rank in mesh)
        ):
            raise ValueError("the mesh of a layout is a list of ranks")
        return cls(
            tuple(axes.items()), tuple(experts.items()), None if mesh is None else tuple(mesh)
        )

    @classmethod
    def from_sizes(cls, order: str | Sequence[str] = "pp-dp-cp-tp", **sizes: int) -> ParallelLayout:
        """Layout from axis sizes; `order` names the axes slowest first.

        >>> str(ParallelLayout.from_sizes(tp=2, pp=2, dp=2))
        'pp 2 x dp 2 x tp 2'
        """
        names = order.split("-") if isinstance(order, str) else list(order)
        experts = tuple((name, sizes.pop(name)) for name in EXPERT_AXES if name in sizes)
        if "dp" in names and ("dp_shard" in sizes or "dp_replicate" in sizes):
            dp_at = names.index("dp")
            names[dp_at : dp_at + 1] = ["dp_replicate", "dp_shard"]
        unplaced = [name for name in sizes if name not in names]
        if unplaced:
            raise ValueError(f"axes {unplaced} have a size but no place in the order {order!r}")
        return cls(tuple((name, sizes[name]) for name in names if name in sizes), experts)

    @classmethod
    def from_megatron_order(cls, order: str = "tp-cp-ep-dp-pp", **sizes: int) -> ParallelLayout:
        """Layout from Megatron's order string, which names the FASTEST axis first."""
        names = [name for name in reversed(order.split("-")) if name not in EXPERT_AXES]
        return cls.from_sizes(names, **sizes)

    @classmethod
    def from_device_mesh(cls, mesh: Any) -> ParallelLayout:
        """Layout of a torch DeviceMesh, by its own rank tensor and dimension names.

        Its last dimension may be ep: then dp, before it, counts the copies of each expert.
        """
        names = mesh.mesh_dim_names
        if not names:
            raise ValueError("the DeviceMesh has no mesh_dim_names; name its dimensions")
        ranks = tuple(int(rank) for rank in mesh.mesh.flatten().tolist())
        axes = tuple((str(n), int(s)) for n, s in zip(names, mesh.mesh.shape, strict=True))
        plain = ranks == tuple(range(len(ranks)))
        return cls(*folded(axes), None if plain else ranks)


Sizes = tuple[tuple[str, int], ...]


def folded(axes: Sizes) -> tuple[Sizes, Sizes]:
    """(axes, those of experts) of a mesh whose last axis may be ep: it is a part of dp."""
    if len(axes) < 2 or axes[-1][0] != "ep" or not axes[-2][0].startswith("dp"):
        return axes, ()
    *others, (dp, size), ep = axes
    return (*others, (dp, size * ep[1])), (ep,)
