"""Summaries of runs on disk: next to the index of each run, written by renaming.

Where a run's folder cannot be written, its index lies in the user's cache, and its summary with it.
A summary belongs to one state of the index and one version of the code: once the run has more data,
or detectors judge otherwise, it is made again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec

from app.analysis.fleet.summarise import summarise
from diagnosis.fleet.summary import Summary
from ingest.errors import UserError
from ingest.index.snapshots import index_folder, is_up_to_date, published_state
from ingest.run import Run
from ingest.run_folder.run_paths import read_plain_file
from ingest.stopping import Stop
from trace_hooks.schema import publish_json

FILE = "summary.json"
MOST_BYTES = 8 << 20
"""Greater ones are no summary: one with MOST_HOSTS hosts has less than a MB."""

_CODE = (("diagnosis", "**/*.py"), ("ingest", "sql/**/*.sql"), ("app", "views/whatif/*.py"))
"""What a summary depends on, with this folder: packages, and files below them."""

_DECODER = msgspec.json.Decoder(Summary)


@dataclass(frozen=True)
class Stored:
    """The summary of a run's folder. `is_newest`: about all that the run has written by now."""

    summary: Summary
    is_newest: bool


@cache
def version() -> str:
    """Names the code that makes summaries: one that judges otherwise makes them again."""
    digest = hashlib.sha256()
    files = [file for name, pattern in _CODE for file in sorted(_folder(name).glob(pattern))]
    for file in [*files, *sorted(Path(__file__).parent.glob("*.py"))]:
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _folder(package: str) -> Path:
    return Path(str(import_module(package).__file__)).parent


def stored_summary(folder: Path) -> Stored | None:
    """What is stored of a run, None where nothing is, or nothing that can be used.

    Raises UserError where neither the run's folder nor the user's cache can hold an index.
    """
    index = index_folder(folder)
    summary = _read(index / FILE)
    if summary is None:
        return None
    is_newest = summary.state == published_state(index) and is_up_to_date(index, folder)
    return Stored(summary, is_newest)


def new_summary(folder: Path, stop: Stop | None = None) -> Summary:
    """Index the run, summarise and store it; raises UserError. What is stored of the same state is
    not made again.
    """
    Run(folder).refresh()
    index = index_folder(folder)
    state = published_state(index)
    if state is None:
        raise UserError(f"{folder.name} is being indexed by another process; try again later")
    stored = _read(index / FILE)
    if stored is not None and stored.state == state:
        return stored
    with Run(folder) as run:
        if run.state == "importing":
            raise UserError(f"{folder.name} is being imported; it is summarised once that is done")
        summary = summarise(run, version(), state, stop)
    _write(summary, index / FILE)
    return summary


def lies_elsewhere(folder: Path) -> bool:
    """Whether the index of a run, and so its summary, lies outside its folder: in the cache."""
    return index_folder(folder).parent != folder


def _read(path: Path) -> Summary | None:
    """A summary of this version; None for anything else, which is simply made again."""
    try:
        summary = _DECODER.decode(read_plain_file(path, MOST_BYTES))
    except (OSError, msgspec.DecodeError, RecursionError):
        return None
    return summary if summary.version == version() else None


def _write(summary: Summary, path: Path) -> None:
    """Store it if possible; where the disk is full it is made again the next time."""
    try:
        publish_json(msgspec.to_builtins(summary), path)
    except OSError:
        return
