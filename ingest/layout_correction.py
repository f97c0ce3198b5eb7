"""Correcting a run's layout by hand: layout.json next to what was read, which stays as it is.

The layout of an import is inferred, or unknown; a user who knows better corrects it here. Readers
of the run (ingest.run_folder.run_files) then show every rank with its place in it, and the indexer
names the axes of the process groups by it (ingest.index.corrected_axes). Deleting the file undoes
it. A layout that the hooks of a job recorded is not corrected: it is what the job ran with.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ingest.errors import UserError
from ingest.run import Run
from ingest.run_folder.run_files import LAYOUT_FILE
from trace_hooks.layout import AXES, EXPERT_AXES, MOST_RANKS, ParallelLayout
from trace_hooks.schema import SCHEMA_VERSION, UNKNOWN, LayoutInfo, RankInfo, publish_json

ORDER = "pp-dp-cp-tp"
"""Axes slowest first, Megatron's default (whose own order strings name the fastest first)."""


def layout_of(sizes: Mapping[str, int], order: str = ORDER) -> ParallelLayout:
    """The layout with these sizes; axes of size 1 are left out. Raises UserError.

    `order` names the axes slowest first; ep and etp are not part of it.
    """
    for name, size in sizes.items():
        if name not in (*AXES, *EXPERT_AXES):
            raise UserError(
                f"{name} is not a parallel axis; known: {', '.join(AXES + EXPERT_AXES)}"
            )
        if not 1 <= size <= MOST_RANKS:
            raise UserError(
                f"axis {name} has size {size}; give a whole number from 1 to {MOST_RANKS}"
            )
    for name in order.split("-"):
        if name not in AXES:
            raise UserError(
                f"{name!r} in the order {order!r} is not an axis; known: {', '.join(AXES)}"
            )
    if "dp" in sizes and {"dp_replicate", "dp_shard"} & set(sizes):
        raise UserError("give either dp or dp_replicate x dp_shard, not both")
    larger = {name: size for name, size in sizes.items() if size > 1}
    try:
        # all of size 1: one rank, whose layout cannot be empty
        layout = ParallelLayout.from_sizes(order, **(larger or {"dp": 1}))
    except ValueError as error:
        raise UserError(f"this is not a layout: {error}") from None
    outside = layout.size("ep") * layout.size("etp")
    if layout.world_size // layout.size("pp") % outside:
        raise UserError(
            f"ep x etp = {outside} does not divide the {layout.world_size // layout.size('pp')} "
            "ranks of a pipeline stage; experts are spread over the ranks of a stage"
        )
    return layout


def check_fits(layout: ParallelLayout, ranks: Sequence[RankInfo]) -> None:
    """Raise UserError unless the ranks of a run can stand in the layout."""
    world_size = max((info["world_size"] for info in ranks), default=UNKNOWN)
    if world_size > 0 and layout.world_size != world_size:
        raise UserError(
            f"{layout} makes {layout.world_size} ranks, the job had {world_size}; "
            f"the sizes must multiply to {world_size}"
        )
    last = max((info["rank"] for info in ranks), default=0)
    if not layout.has(last):
        raise UserError(
            f"{layout} makes {layout.world_size} ranks, but there is a rank {last}; "
            f"the sizes must multiply to {last + 1} or more"
        )


def refusal(run: Run) -> str | None:
    """Why the layout of this run cannot be corrected; None: it can."""
    if run.is_layout_recorded:
        return (
            "This run was recorded by hooks, with the layout that the job ran with: there is "
            "nothing to correct."
        )
    if run.state == "importing":
        return "Files are still read into this run; its layout can be corrected when all are read."
    if not run.ranks:
        return "No rank of this run is known yet."
    return None


def correct(run: Run, layout: ParallelLayout) -> None:
    """Have the run's ranks stand in this layout from its next index on; raises UserError."""
    why_not = refusal(run)
    if why_not:
        raise UserError(why_not)
    check_fits(layout, run.ranks_as_read)
    correction = LayoutInfo(
        schema=SCHEMA_VERSION, layout=layout.to_json(), corrected_ns=time.time_ns()
    )
    try:
        publish_json(correction, run.folder / LAYOUT_FILE)
    except OSError as error:
        raise _unwritable(run.folder, error) from error


def undo(run: Run) -> bool:
    """Take the correction back; whether there was one. Raises UserError."""
    path = run.folder / LAYOUT_FILE
    try:
        was_there = path.exists()
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(run.folder, error) from error
    return was_there


def _unwritable(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"the layout of {folder} cannot be corrected: the folder cannot be written "
        f"({error.strerror}); correct a copy of it"
    )
