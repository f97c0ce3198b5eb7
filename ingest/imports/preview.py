"""Runs that are still being imported: what is read whole is shown while the rest is read.

An import works in a hidden folder, RUNS/.import-ID. It also holds shown/NAME, a run
folder of the name that the run will have: every file of a format whose files name their own rank
puts its rows there, by links that cost no room. Clocks are left out, because they are compared
at the end, and so is a second file of a rank, which may turn out to be left out. All of it is a run
once it is known what times are counted from (ingest.imports.time_zero), as they are in the whole
run: links hold. The whole run then appears in RUNS under the same name, and the hidden folder goes,
however the import ends.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ingest.index.snapshots import OwnerLock
from ingest.run_folder.run_files import RUN_FILE, is_run_folder
from ingest.run_folder.run_writer import RunWriter
from trace_hooks.schema import SCHEMA_VERSION, RunInfo, publish_json, rank_file_name

UNFINISHED = ".import-"
"""How the folder begins in which an import works."""
FOUND = "reading"
"""Folder in it: what was read and not put together yet; locked while the import runs."""
_SHOWN = "shown"
_PROGRESS = "importing.json"
_NOTE_EVERY_S = 0.5
_REMOVE_TRIES = 50
_REMOVE_EVERY_S = 0.1


@dataclass(frozen=True)
class ImportProgress:
    """How far an import is; bytes as they lie on disk."""

    num_done: int
    num_files: int
    done_bytes: int
    num_bytes: int

    def __str__(self) -> str:
        share = 100 * self.done_bytes // max(self.num_bytes, 1)
        if self.num_files <= 1:
            return f"{share} % read"
        return f"{self.num_done:,} of {self.num_files:,} files, {share} % read"


class Showing:
    """The run in the making of one import, for the process that imports."""

    def __init__(self, unfinished: Path, run: str) -> None:
        self.folder = unfinished / _SHOWN / run
        self.folder.mkdir(parents=True)
        self._noted_s = 0.0

    @property
    def is_there(self) -> bool:
        """Whether anything is shown yet."""
        return is_run_folder(self.folder)

    def begin(self, format_name: str, t0_ns: int) -> None:
        """Show it from now on: something was read, and times count from `t0_ns`."""
        info = RunInfo(
            schema=SCHEMA_VERSION,
            run=self.folder.name,
            created_ns=t0_ns,
            clock="absolute",
            source=format_name,
            framework="",
            versions={},
            importing=True,
        )
        with suppress(OSError):  # the disk is full, which ends the import by itself
            publish_json(info, self.folder / RUN_FILE)

    def note(self, progress: ImportProgress) -> None:
        """Note how far the import is, unless that was noted a moment ago."""
        now_s = time.monotonic()
        if now_s - self._noted_s > _NOTE_EVERY_S:
            self._noted_s = now_s
            with suppress(OSError):  # the disk is full, which ends the import by itself
                publish_json(asdict(progress), self.folder / _PROGRESS)


class EarlyWriter(RunWriter):
    """What one file shows, put into the run in the making unless another file has shown its rank.

    Raises OSError where links cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._links: list[tuple[str, int, Path]] = []

    def adopt_rows(self, table: str, rank: int, path: Path) -> None:
        """Rows in a file that stays where it is."""
        if table != "clocks":
            self._links.append((table, rank, path))

    def show(self) -> bool:
        """Show what was adopted, with its ranks; False where all of them are shown already."""
        claimed = {rank: info for rank, info in self.ranks.items() if self._claim(rank)}
        for table, rank, path in self._links:
            if rank in claimed:
                os.link(path, self.next_segment(table, rank))
        for rank, info in claimed.items():
            publish_json(info, self.folder / "ranks" / rank_file_name(0, rank))
        return bool(claimed)

    def _claim(self, rank: int) -> bool:
        claims = self.folder / "claimed"
        claims.mkdir(exist_ok=True)
        with suppress(FileExistsError):
            (claims / str(rank)).touch(exist_ok=False)
            return True
        return False


def remove(unfinished: Path) -> None:
    """Remove the folder of an import; a server that follows what it shows may still write there."""
    for _ in range(_REMOVE_TRIES):
        for run_file in unfinished.glob(f"{_SHOWN}/*/{RUN_FILE}"):
            run_file.unlink(missing_ok=True)  # the follower sees by this that the run has gone
        shutil.rmtree(unfinished, ignore_errors=True)
        if not unfinished.exists():
            return
        time.sleep(_REMOVE_EVERY_S)


def shown_runs(runs: Path) -> list[Path]:
    """Folders of the runs in the making whose imports still run, by name."""
    folders = []
    for path in runs.glob(f"{UNFINISHED}*/{_SHOWN}/*/{RUN_FILE}"):
        lock = OwnerLock(path.parents[2] / FOUND)
        with suppress(OSError):  # it has just ended
            if lock.acquire():  # its import was killed
                lock.release()
            else:
                folders.append(path.parent)
    return sorted(folders, key=lambda folder: folder.name)


def is_shown(folder: Path) -> bool:
    """Whether a run's folder is one of a run in the making."""
    return folder.parent.name == _SHOWN and folder.parents[1].name.startswith(UNFINISHED)


def import_progress(folder: Path) -> ImportProgress:
    """How far the import of a run in the making is; zeros where it is not known yet."""
    with suppress(OSError, ValueError):  # it has just begun, or ended
        progress = json.loads((folder / _PROGRESS).read_text(encoding="utf-8"))
        return ImportProgress(**progress)
    return ImportProgress(0, 0, 0, 0)
