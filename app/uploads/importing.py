"""Imports the files of one upload; waits while the disk is full."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from app.analysis.imports import import_paths
from app.uploads.files import free_bytes, run_name
from app.uploads.storage import UploadFolder, keep_s
from ingest.errors import DiskFull, UserError, is_full
from ingest.run_folder.run_files import RUN_FILE
from trace_hooks.schema import publish_json

ROOM_BYTES = 16 << 20
"""An import that failed for lack of space is tried again when this much more is free."""
_LOOK_FOR_ROOM_S = 1.0
_TRY_AFTER_S, _LONGEST_PAUSE_S = 30.0, 600.0
"""It is tried again after the first pause in any case, then after twice as long each time."""
_MOST_TRIES = 2


@dataclass
class Import:
    """State of an import: progress in bytes read, then a run or one sentence."""

    done_bytes: int = 0
    num_bytes: int = 0
    file: str = ""
    """the file that is being read"""
    shown: str | None = None
    """run with a preview of the data read so far"""
    run: str | None = None
    is_known: bool = False
    """whether the same content was imported before"""
    problems: list[str] = field(default_factory=list)
    guesses: list[str] = field(default_factory=list)
    error: str | None = None
    """why there is no run, or what the import waits for"""


def import_files(
    storage: UploadFolder, runs: Path, result: Import, is_over: Callable[[], bool]
) -> None:
    """Read the files of an upload into `result`; raises UserError, OSError.

    `is_over`: whether the import was cancelled; called at least ten times a second.
    """
    tries, files = storage.tries, storage.files
    if tries >= _MOST_TRIES:
        raise UserError(
            f"the server ended {tries} times while it read these files; "
            "read them with `rankscope import` to see why"
        )
    storage.tries = tries + 1

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
    info = _without_folder(folder / RUN_FILE, files.folder)
    result.problems, result.guesses = info["problems"], info["guesses"]
    result.is_known = (folder / RUN_FILE).stat().st_ctime_ns < begun_ns
    result.run = folder.name


def is_out_of_space(error: Exception) -> bool:
    """Whether an import failed because a disk is full."""
    return isinstance(error, DiskFull) or (isinstance(error, OSError) and is_full(error))


class Room:
    """Waits for free space on a disk that was too full for an import.

    All files stay meanwhile, also for the next server, and `tries` does not count this failure.
    """

    def __init__(self, storage: UploadFolder, runs: Path, tries: int) -> None:
        self._storage, self._runs, self._tries = storage, runs, tries
        self._begun_s: float | None = None
        self._pause_s = _TRY_AFTER_S

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Return when there is more space, or after a pause in any case: space may have been freed
        before it was measured, and a quota cannot be measured. Raises UserError if none is freed.
        """
        now_s = time.monotonic()
        self._begun_s = now_s if self._begun_s is None else self._begun_s
        too_little, until_s = free_bytes(self._runs), now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        with suppress(OSError):  # the same full disk
            self._storage.tries = self._tries
        while free_bytes(self._runs) < too_little + ROOM_BYTES and time.monotonic() < until_s:
            if is_over():
                raise UserError("the import was cancelled")
            if time.monotonic() - self._begun_s > keep_s():
                raise UserError("the disk of the server stayed full; send these files again later")
            time.sleep(_LOOK_FOR_ROOM_S)


def _without_folder(path: Path, folder: Path) -> dict[str, list[str]]:
    """Rewrite run.json with the file names that the user knows; returns its texts."""
    info = json.loads(path.read_text(encoding="utf-8"))
    texts = {key: info.get(key, []) for key in ("provenance", "problems", "guesses")}
    clean = {k: [line.replace(f"{folder}/", "") for line in lines] for k, lines in texts.items()}
    if clean != texts:
        publish_json({**info, **clean}, path)
    return clean
