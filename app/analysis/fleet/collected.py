"""The summaries of the runs of a folder: those stored, and those still to be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from app.analysis.fleet.stored import lies_elsewhere, new_summary, stored_summary
from diagnosis.fleet.summary import Summary
from ingest.errors import UserError
from ingest.stopping import Interrupted, Stop


@dataclass
class Collected:
    """Summaries by the names of the runs' folders. `missing`: none is stored, or one of an older
    state, which is in `summaries` as well. `problems`: a sentence for each run that cannot be read.
    `elsewhere`: runs whose summary lies in the user's cache.
    """

    summaries: dict[str, Summary] = field(default_factory=dict)
    missing: list[Path] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)


def collected(folders: Iterable[Path]) -> Collected:
    """What is stored of some runs; reads a small file of each."""
    found = Collected()
    for folder in folders:
        try:
            stored = stored_summary(folder)
            if lies_elsewhere(folder):
                found.elsewhere.append(folder.name)
        except (UserError, OSError) as error:
            found.problems[folder.name] = str(error)
            continue
        if stored is not None:
            found.summaries[folder.name] = stored.summary
        if stored is None or not stored.is_newest:
            found.missing.append(folder)
    return found


def complete(
    found: Collected,
    progress: Callable[[int, int, str], None] = lambda done, total, name: None,
    stop: Stop | None = None,
) -> None:
    """Make what is missing, one run after the other; each is stored at once, so that whoever is
    interrupted goes on there. `progress` is called with (done, all, name) before each run. Raises
    Interrupted.
    """
    total = len(found.missing)
    while found.missing:
        folder = found.missing[0]
        progress(total - len(found.missing), total, folder.name)
        make(found, folder, stop)
        del found.missing[0]


def make(found: Collected, folder: Path, stop: Stop | None = None) -> None:
    """Put the newest summary of a run into `found`, or why there is none; raises Interrupted."""
    try:
        found.summaries[folder.name] = new_summary(folder, stop)
        found.problems.pop(folder.name, None)
    except (UserError, OSError, duckdb.Error) as error:
        if isinstance(error, Interrupted) and stop is not None and stop.called:
            raise
        found.problems[folder.name] = str(error)
