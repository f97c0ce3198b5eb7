"""Ranks and layout of files that have coordinates (dp, pp, tp) and perhaps no rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_hooks.layout import ParallelLayout

_ORDER = ("pp", "dp", "tp")
"""Slowest first: Megatron's default order of ranks."""


class Grid:
    """The rank of every file, and the layout where the files fill a whole grid."""

    def __init__(self, coords: Sequence[Mapping[str, int]], known: Sequence[int | None]) -> None:
        """`coords` and `known` ranks of the same files, in the same order."""
        self.guesses: list[str] = []
        self.ranks: list[int] = []
        sizes = {axis: max(c.get(axis, 0) for c in coords) + 1 for axis in _ORDER}
        cells = {tuple(c.get(axis, 0) for axis in _ORDER) for c in coords}
        is_whole = len(cells) == len(coords) == sizes["pp"] * sizes["dp"] * sizes["tp"]
        layout = ParallelLayout.from_sizes("-".join(_ORDER), **sizes) if is_whole else None
        counted = [_position(c, sizes) if layout else n for n, c in enumerate(coords)]
        self.ranks = [n if rank is None else rank for n, rank in zip(counted, known, strict=True)]
        if None in known:
            order = "their coordinates in Megatron's default order" if layout else "their order"
            self.guesses.append(f"no file names its global rank: ranks are numbered by {order}")
        fits = layout is not None and sorted(self.ranks) == list(range(len(coords)))
        self.layout = layout if fits and self.ranks == counted else None
        if self.layout is not None:
            self.guesses.append(
                f"the layout {self.layout} is taken from the coordinates of the ranks that are here"
            )
        elif len(coords) > 1:
            self.guesses.append(
                "the parallel layout is unknown, because the ranks that were given do not fill a "
                "complete grid; `rankscope layout` can set it"
            )


def _position(coords: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    position = 0
    for axis in _ORDER:
        position = position * sizes[axis] + coords.get(axis, 0)
    return position
