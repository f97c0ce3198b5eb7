"""Who may write which run: the server's job token opens runs, a run's own secret writes into it.

The first hello for a run that is not here opens it: the digest of the secret it brings is kept in
the run's folder, and every later hello must bring the same secret. Where the ranks write into the
folder themselves they have put the digest there. A run without one was recorded otherwise, and no
hello writes to it. Likewise the first start that names an attempt has it (trace_hooks/job_claims).
"""

from __future__ import annotations

import hmac
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from app.live_rank import Hello
from app.received_files import has_ended, require_room
from ingest.errors import UserError, disk_error
from ingest.run_files import is_run_folder
from ingest.unfinished import shown_runs
from trace_hooks.job_claims import (
    DIGEST_FILE,
    SECRET_FILE,
    attempt_file,
    digest_of,
    first_text,
    read_line,
)

MOST_VARIABLE, MOST_OPENED = "RANKSCOPE_MOST_JOB_RUNS", 1_000
"""Runs of a folder that hellos have opened."""
MOST_ATTEMPTS = 4_096
"""Attempts of one run that hellos have claimed."""
FORGOTTEN_S = 7 * 86_400.0
"""A run that was opened, has no data and was not connected for so long makes room for others."""


class NotYours(UserError):
    """A hello names a run, an attempt or a rank that it may not write. At most 120 bytes."""


class TooMany(UserError):
    """Jobs have opened as many runs as a folder takes."""


class Claims:
    """What hellos may write below `runs`, a folder of runs or one run; safe from many threads."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._starts: dict[tuple[str, int], str] = {}
        """who has an attempt, where the run's folder cannot be written"""

    def folder(self, run: str) -> Path:
        """Folder of a run; raises NotYours where no job may write there."""
        if is_run_folder(self._runs):
            if self._runs.name != run:
                raise NotYours("this server shows one other run; start it for the folder of runs")
            return self._runs
        folder = self._runs / run
        if folder.is_symlink():
            raise NotYours("this run's folder is a link, and no job writes through links")
        return folder

    def check(self, hello: Hello) -> None:
        """Return where the hello may write what it names; raises NotYours, TooMany, UserError."""
        folder = self.folder(hello.run)
        with self._lock:
            self._check_secret(folder, digest_of(hello.secret))
            self._check_start(folder, hello)
        if has_ended(folder, hello.attempt, hello.rank):
            raise NotYours(
                f"rank {hello.rank} has ended attempt {hello.attempt}; a restart is a new one"
            )

    def _check_secret(self, folder: Path, digest: str) -> None:
        path = folder / DIGEST_FILE
        try:
            known = read_line(path)
        except (FileNotFoundError, NotADirectoryError):
            known = self._opened(folder, digest)
        except OSError as error:
            raise disk_error(str(path), error) from error
        if not hmac.compare_digest(known.encode(), digest.encode()):
            raise NotYours(
                "this run is another job's; keep TRACE_HOOKS_FOLDER over restarts, or change "
                "TRACE_HOOKS_RUN"
            )
        with suppress(OSError):  # it is the ranks' own, or the disk is read-only
            os.utime(path)

    def _opened(self, folder: Path, digest: str) -> str:
        """The digest of a new run; raises NotYours where the run is here already."""
        if os.path.lexists(folder) or any(
            one.name == folder.name for one in shown_runs(self._runs)
        ):
            raise NotYours(
                "this run was recorded without this job; give TRACE_HOOKS_RUN another name"
            )
        self._make_room()
        try:
            require_room(folder.parent)
            folder.mkdir()
            return first_text(folder / DIGEST_FILE, digest, 0o600)
        except OSError as error:
            _remove_opened(folder)  # else it would be nobody's, also when there is room again
            raise disk_error(f"the folder of {folder.name}", error) from error

    def _check_start(self, folder: Path, hello: Hello) -> None:
        key = hello.run, hello.attempt
        try:
            path = attempt_file(folder, hello.attempt)
            if not path.exists():
                self._require_room_for(path)
            start = first_text(path, hello.start)
        except OSError:  # the ranks' own folder, which this server only reads
            start = self._starts.setdefault(key, hello.start)
        if start != hello.start:
            raise NotYours(
                f"another start has attempt {hello.attempt}; keep TRACE_HOOKS_FOLDER, or change "
                "TRACE_HOOKS_RUN"
            )

    @staticmethod
    def _require_room_for(path: Path) -> None:
        """Return where one more attempt may be claimed; raises TooMany, UserError, OSError."""
        require_room(path.parent.parent)
        if path.parent.exists() and sum(1 for _ in path.parent.iterdir()) >= MOST_ATTEMPTS:
            raise TooMany(f"this run has {MOST_ATTEMPTS} attempts; change TRACE_HOOKS_RUN")

    def _make_room(self) -> None:
        opened = [path.parent for path in self._runs.glob(f"*/{DIGEST_FILE}")]
        opened = [folder for folder in opened if not (folder / SECRET_FILE).exists()]
        num_left = len(opened) - sum(_forgotten(folder) for folder in opened)
        most = _most_opened()
        if num_left >= most:
            raise TooMany(
                f"jobs have opened {most} runs here; remove some, or raise {MOST_VARIABLE}"
            )


def _remove_opened(folder: Path) -> None:
    """Undo what opened a run that could not be opened."""
    with suppress(OSError):
        (folder / DIGEST_FILE).unlink(missing_ok=True)
        folder.rmdir()


def _most_opened() -> int:
    text = os.environ.get(MOST_VARIABLE, "")
    return int(text) if text.isdecimal() and len(text) < 10 else MOST_OPENED


def _forgotten(folder: Path) -> bool:
    """Remove what was opened long ago and never had data; whether it was."""
    path = folder / DIGEST_FILE
    with suppress(OSError):
        if is_run_folder(folder) or time.time() - path.stat().st_mtime < FORGOTTEN_S:
            return False
        attempts = folder / "attempts"
        if {one.name for one in folder.iterdir()} <= {DIGEST_FILE, attempts.name}:
            for one in attempts.iterdir():
                one.unlink()
            attempts.rmdir()
            path.unlink()
            folder.rmdir()
            return True
    return False
