"""Carries out what app.analysis.retention.planned decided, while others write and read."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from app.analysis.retention.planned import BUSY, Plan, aged, planned
from ingest.errors import UserError
from ingest.index.deletion import InUse, delete_run
from ingest.index.indexer import Busy, Indexer
from ingest.index.retention import Keep
from ingest.run_folder.pins import read_pins
from ingest.run_folder.retention_file import Retention, read_retention, write_retention

SLICE_S = 0.25
"""Files are written again for so long at a time; then the disk is others' for as long."""
OTHERS_DO = "the process that indexes it removes them, and their rows are gone from answers soon"
CHANGED = "something in it, or its pins, changed meanwhile; the next time looks at it again"


def carry_out(plan: Plan, content: Keep, with_findings: bool = False) -> str:
    """Remove what a plan says, and content beyond bounds; why something is not gone yet, or empty.

    Hours may have passed since: a whole run is looked at again, and pins are read again. Raises
    UserError where the run cannot be written. What is interrupted goes on the next time.
    """
    folder = plan.folder
    try:
        if plan.is_whole:
            return _delete_whole(plan, with_findings)
        if plan.removed:
            if tuple(read_pins(folder)) != plan.pins:
                return CHANGED
            before = read_retention(folder)
            kept = () if with_findings else before.kept
            write_retention(
                folder, Retention(before.removed, kept).with_more(plan.removed, plan.found)
            )
        if plan.removed or content.is_bounded:
            work_off(folder, content)
    except Busy:
        return BUSY if plan.is_whole else OTHERS_DO
    except InUse:
        return CHANGED
    except OSError as error:
        raise UserError(
            f"{folder} cannot be changed ({error.strerror}); check its permissions and the disk's "
            "free space"
        ) from error
    return ""


def _delete_whole(plan: Plan, with_findings: bool) -> str:
    """Delete a run if a plan made now still says so; why it is left alone, or empty.

    Raises Busy, InUse, OSError and UserError.
    """
    again = planned(aged(plan.folder), plan.before_ns, with_findings)
    if not again.is_whole:
        return again.left_alone or CHANGED
    delete_run(again.folder, again.before_ns, again.pins)
    return ""


def work_off(folder: Path, content: Keep) -> None:
    """Bring the files of a run to what its retention.json says, half of the time at rest.

    Raises Busy where another process does so, UserError where a file cannot be written.
    """
    pause = threading.Event()
    with Indexer(folder, content) as indexer:
        while True:
            begun_s = time.monotonic()
            if not indexer.refresh(merge_s=SLICE_S).merged_files:
                return
            pause.wait(time.monotonic() - begun_s)
