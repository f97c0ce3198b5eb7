"""Preview of a layout: the coordinates of the ranks, and the axes of the process groups."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ingest.run import Run
from trace_hooks.layout import ParallelLayout

FIRST_RANKS = 16
"""Number of ranks whose coordinates are shown."""


@dataclass(frozen=True)
class LayoutPreview:
    """`places`: (rank, {axis: index}) of the first ranks; `groups_note`: one sentence."""

    layout: str
    axes: tuple[str, ...]
    places: tuple[tuple[int, dict[str, int]], ...]
    groups_note: str


def layout_preview(run: Run, layout: ParallelLayout) -> LayoutPreview:
    """The layout for the ranks with data and for the process groups that they recorded."""
    ranks = sorted({info["rank"] for info in run.ranks_as_read if layout.has(info["rank"])})
    axes = tuple(name for name, _ in layout.axes)
    places = [(rank, layout.coords(rank)) for rank in ranks[:FIRST_RANKS]]
    return LayoutPreview(
        str(layout),
        axes,
        tuple((rank, {axis: coords[axis] for axis in axes}) for rank, coords in places),
        _groups_sentence(run, layout),
    )


def _groups_sentence(run: Run, layout: ParallelLayout) -> str:
    """How well the recorded process groups fit: a wrong order of axes shows here first."""
    rows = run.index_rows(
        "SELECT DISTINCT ranks FROM group_members WHERE len(ranks) > 1 AND told_axis <> 'ep'"
    )
    if not rows:
        return "No recorded process group shows whether this layout is right."
    if all(len(row["ranks"]) == layout.world_size for row in rows):
        return (
            "All recorded process groups span the whole job: they do not show whether this layout "
            "is right."
        )
    along = Counter(layout.axis_of(row["ranks"]) for row in rows)
    unfit = along.pop("unknown", 0)
    fit = ", ".join(
        f"{number} {'over the whole job' if axis == 'world' else f'along {axis}'}"
        for axis, number in sorted(along.items())
    )
    if not unfit:
        return f"The recorded process groups fit: {fit}."
    return (
        f"Of {len(rows)} recorded process groups, {unfit} run along no axis of this layout"
        f"{f'; of the others, {fit}' if fit else ''}. Is the order of the axes right?"
    )
