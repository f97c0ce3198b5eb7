"""Correct the parallel layout of an imported run by hand, or undo a correction."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from app.views.ranks.layout_preview import LayoutPreview, layout_preview
from ingest import layout_correction
from ingest.errors import UserError, printable
from ingest.run import Run, RunStore
from ingest.summary import LAYOUT_WORDS, layout_from
from trace_hooks.layout import AXES, EXPERT_AXES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope layout`."""
    parser.add_argument("path", type=Path, metavar="RUN", help="run folder")
    for axis in (*AXES, *EXPERT_AXES):
        name = f"--{axis.replace('_', '-')}"
        what = f"size of the axis {axis} (default: 1)"
        parser.add_argument(name, dest=axis, type=int, metavar="N", help=what)
    what = (
        "order of the axes, the one that varies slowest with the rank number first (default: "
        "%(default)s); Megatron writes the reverse"
    )
    parser.add_argument("--order", default=layout_correction.ORDER, help=what)
    parser.add_argument("--as-imported", action="store_true", help="undo the correction")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for machines")


def run(arguments: argparse.Namespace) -> int:
    """Correct, undo or only print; the index is updated now or by the process that owns it."""
    options = {axis: getattr(arguments, axis) for axis in (*AXES, *EXPERT_AXES)}
    sizes = {axis: size for axis, size in options.items() if size is not None}
    if sizes and arguments.as_imported:
        raise UserError("give the sizes of a layout or --as-imported, not both")
    with RunStore(arguments.path).open() as opened:
        preview = None
        if sizes:
            layout = layout_correction.layout_of(sizes, arguments.order)
            layout_correction.correct(opened, layout)
            preview = layout_preview(opened, layout)
        elif arguments.as_imported:
            layout_correction.undo(opened)
        opened.refresh()
        _print(opened, preview, arguments.json)
    return 0


def _print(run: Run, preview: LayoutPreview | None, as_json: bool) -> None:
    layout, known = run.layout(), layout_from(run)
    if as_json:
        axes = None if layout is None else dict(layout.axes)
        print(json.dumps({"run": run.info["run"], "layout": axes, "layout_from": known}))
        return
    words = f"{layout} ({LAYOUT_WORDS[known]})" if layout and known else "unknown"
    print(printable(f"layout    {words}"))
    for rank, coords in preview.places if preview else ():
        print(f"rank {rank:<5}" + " ".join(f"{axis} {index}" for axis, index in coords.items()))
    if preview:
        print(preview.groups_note)
