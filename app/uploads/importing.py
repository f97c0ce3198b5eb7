"""The import of one upload's files, which goes on once a full disk has room again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from app.analysis.imports import import_paths
from app.uploads.files import free_bytes, run_name
from app.uploads.storage import Place, keep_s
from ingest.errors import DiskFull, UserError, is_full
from ingest.run_folder.run_files import RUN_FILE
from trace_hooks.schema import publish_json

ROOM_BYTES = 16 << 20
"""An import that found too little room is tried again when there is this much more."""
_LOOK_FOR_ROOM_S = 1.0
_TRY_AFTER_S, _LONGEST_PAUSE_S = 30.0, 600.0
"""It is tried again after the first, in any case, then after twice as long each time."""
_MOST_TRIES = 2


@dataclass
class Import:
    """What became of the files: progress in bytes read, then a run or one sentence."""

    done_bytes: int = 0
    num_bytes: int = 0
    file: str = ""
    """the one that is read now"""
    shown: str | None = None
    """run in which what is read so far can be looked at"""
    run: str | None = None
    is_known: bool = False
    """the same content was here already"""
    problems: list[str] = field(default_factory=list)
    guesses: list[str] = field(default_factory=list)
    error: str | None = None
    """why there is no run, or what is waited for"""


def import_files(place: Place, runs: Path, result: Import, is_over: Callable[[], bool]) -> None:
    """Read the files of an upload into `result`; raises UserError, OSError.

    `is_over`: whether nobody wants it any more, asked at least ten times a second.
    """
    tries, files = place.tries, place.files
    if tries >= _MOST_TRIES:
        raise UserError(
            f"the server ended {tries} times while it read these files; "
            "read them with `rankscope import` to see why"
        )
    place.tries = tries + 1

    def progress(done_bytes: int, num_bytes: int) -> None:
        result.done_bytes, result.num_bytes = done_bytes, num_bytes
        if is_over():
            raise UserError("the import was cancelled")

    def on_file(name: str) -> None:
        result.file = name.replace(f"{files.folder}/", "")

    def on_shown(run: str) -> None:
        result.shown = run

    begun_ns = time.time_ns()
    progress(0, result.num_bytes)
    name = run_name(files.heads)
    folder = import_paths(files.paths, runs, progress, name, on_file, on_shown)
    info = _without_place(folder / RUN_FILE, files.folder)
    result.problems, result.guesses = info["problems"], info["guesses"]
    result.is_known = (folder / RUN_FILE).stat().st_ctime_ns < begun_ns
    result.run = folder.name


def is_for_want_of_room(error: Exception) -> bool:
    """Whether an import failed because a disk is full."""
    return isinstance(error, DiskFull) or (isinstance(error, OSError) and is_full(error))


class Room:
    """Waits for room on a disk that was too full for an import.

    All files are kept meanwhile, also for the next server, and `tries` counts no failure.
    """

    def __init__(self, place: Place, runs: Path, tries: int) -> None:
        self._place, self._runs, self._tries = place, runs, tries
        self._begun_s: float | None = None
        self._pause_s = _TRY_AFTER_S

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Return when there is more room than was too little, or it is time to try all the same:
        room may have come before it was measured, and that of a quota is not seen. Raises UserError
        where none comes.
        """
        now_s = time.monotonic()
        self._begun_s = now_s if self._begun_s is None else self._begun_s
        too_little, until_s = free_bytes(self._runs), now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        with suppress(OSError):  # the same full disk
            self._place.tries = self._tries
        while free_bytes(self._runs) < too_little + ROOM_BYTES and time.monotonic() < until_s:
            if is_over():
                raise UserError("the import was cancelled")
            if time.monotonic() - self._begun_s > keep_s():
                raise UserError("the disk of the server stayed full; send these files again later")
            time.sleep(_LOOK_FOR_ROOM_S)


def _without_place(path: Path, place: Path) -> dict[str, list[str]]:
    """run.json, rewritten so that it names the files as the user knows them."""
    info = json.loads(path.read_text(encoding="utf-8"))
    told = {key: info.get(key, []) for key in ("provenance", "problems", "guesses")}
    clean = {k: [line.replace(f"{place}/", "") for line in lines] for k, lines in told.items()}
    if clean != told:
        publish_json({**info, **clean}, path)
    return clean
