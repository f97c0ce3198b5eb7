"""Which job may write which run: the job token opens runs, a run's own secret writes to it.

The first hello for an unknown run opens it: the server stores the digest of the hello's secret in
the run's folder, and every later hello must carry the same secret. If the ranks write into the
folder themselves, they have stored the digest there. A run without a digest was recorded in another
way, and no hello writes to it. Likewise the first start that names an attempt owns it
(trace_hooks/protocol/job_claims.py).
"""

from __future__ import annotations

import errno
import hmac
import os
import secrets
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from app.live.connected_rank import Hello
from app.live.shipped_files import has_ended, require_room
from ingest.errors import UserError, disk_error
from ingest.imports.preview import shown_runs
from ingest.run_folder.run_files import is_run_folder
from ingest.run_folder.run_paths import RECEIVING, plain_file, require_no_links
from trace_hooks.protocol.job_claims import (
    DIGEST_FILE,
    SECRET_FILE,
    attempt_file,
    digest_of,
    first_text,
    read_line,
)

MOST_VARIABLE, MOST_OPENED = "RANKSCOPE_MOST_JOB_RUNS", 1_000
"""At most this many runs of a folder may be opened by hellos."""
MOST_ATTEMPTS = 4_096
"""At most this many attempts of one run may be claimed by hellos."""
FORGOTTEN_S = 7 * 86_400.0
"""An opened run without data that no rank has connected to for this long makes room for others."""
MOST_UNWRITTEN = 16_384
"""Claims remembered for runs in read-only folders; the oldest is forgotten first."""
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_NEW_FOLDER = ".opening-"
_ATTEMPTS = "attempts"


class NotYours(UserError):
    """A hello names a run, an attempt or a rank that it may not write. At most 120 bytes."""


class TooMany(UserError):
    """Jobs have opened the maximum number of runs."""


class Claims:
    """What hellos may write below `runs`, a folder of runs or one run; safe for many threads.

    `is_connected`: whether a rank of the run with this name is connected; called from any thread.
    """

    def __init__(
        self, runs: Path, is_connected: Callable[[str], bool] = lambda _run: False
    ) -> None:
        self._runs = runs
        self._is_connected = is_connected
        self._lock = threading.Lock()
        self._starts: OrderedDict[tuple[str, int], str] = OrderedDict()
        """the start that owns an attempt, if the run's folder is read-only"""

    def folder(self, run: str) -> Path:
        """Folder of a run; raises NotYours if no job may write there."""
        if is_run_folder(self._runs):
            if self._runs.name != run:
                raise NotYours("this server shows one other run; start it for the folder of runs")
            return self._runs
        folder = self._runs / run
        if folder.is_symlink():
            raise NotYours("this run's folder is a link, and no job writes through links")
        return folder

    @staticmethod
    def _require_no_links(folder: Path) -> None:
        try:
            require_no_links(folder, *RECEIVING)
        except UserError as error:
            raise NotYours(
                "a folder of this run is a link, and no job writes through links"
            ) from error

    def check(self, hello: Hello) -> None:
        """Return if the hello may write what it names; raises NotYours, TooMany, UserError."""
        folder = self.folder(hello.run)
        self._require_no_links(folder)
        with self._lock:
            self._check_secret(folder, digest_of(hello.secret))
            self._check_start(folder, hello)
        if has_ended(folder, hello.attempt, hello.rank):
            raise NotYours(
                f"rank {hello.rank} has ended attempt {hello.attempt}; a restart is a new attempt"
            )

    def _check_secret(self, folder: Path, digest: str) -> None:
        path = folder / DIGEST_FILE
        try:
            known = read_line(path) or self._completed(folder, digest)
        except (FileNotFoundError, NotADirectoryError):
            known = self._opened(folder, digest)
        except OSError as error:
            raise disk_error(str(path), error) from error
        if not hmac.compare_digest(known.encode(), digest.encode()):
            raise NotYours(
                "this run is another job's; keep TRACE_HOOKS_FOLDER across restarts, or change "
                "TRACE_HOOKS_RUN"
            )
        with suppress(OSError):  # the file is the ranks' own, or the disk is read-only
            os.utime(path)

    def _opened(self, folder: Path, digest: str) -> str:
        """Open a new run and return its digest; raises NotYours if the run exists already."""
        if os.path.lexists(folder) or any(
            shown.name == folder.name for shown in shown_runs(self._runs)
        ):
            raise NotYours(
                "this run was recorded without this job; give TRACE_HOOKS_RUN another name"
            )
        new_folder = self._runs / f"{_NEW_FOLDER}{secrets.token_hex(8)}"
        try:
            self._make_room()
            require_room(self._runs)
            new_folder.mkdir()
            first_text(new_folder / DIGEST_FILE, digest, 0o600)
            new_folder.rename(folder)
        except OSError as error:
            with suppress(OSError):
                shutil.rmtree(new_folder)
            raise disk_error(f"the folder of {folder.name}", error) from error
        return digest

    @staticmethod
    def _completed(folder: Path, digest: str) -> str:
        """Write and return the digest that a crash left out; raises NotYours, OSError."""
        if is_run_folder(folder) or os.path.lexists(folder / SECRET_FILE):
            raise NotYours(f"{DIGEST_FILE} of this run is empty; give TRACE_HOOKS_RUN another name")
        return first_text(folder / DIGEST_FILE, digest, 0o600)

    def _check_start(self, folder: Path, hello: Hello) -> None:
        path = attempt_file(folder, hello.attempt)
        try:
            if not path.exists():
                self._require_room_for(path)
            start = first_text(path, hello.start)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise disk_error(str(path), error) from error
            # the ranks' own folder, which this server only reads
            start = self._remembered_start(hello)
        if start != hello.start:
            raise NotYours(
                f"another start owns attempt {hello.attempt}; keep TRACE_HOOKS_FOLDER, or change "
                "TRACE_HOOKS_RUN"
            )

    def _remembered_start(self, hello: Hello) -> str:
        start = self._starts.setdefault((hello.run, hello.attempt), hello.start)
        while len(self._starts) > MOST_UNWRITTEN:
            self._starts.popitem(last=False)
        return start

    @staticmethod
    def _require_room_for(path: Path) -> None:
        """Return if one more attempt may be claimed; raises TooMany, UserError, OSError."""
        require_room(path.parent.parent)
        if path.parent.exists() and sum(1 for _ in path.parent.iterdir()) >= MOST_ATTEMPTS:
            raise TooMany(f"this run has {MOST_ATTEMPTS} attempts; change TRACE_HOOKS_RUN")

    def _make_room(self) -> None:
        num_left = sum(not self._forgotten(folder) for folder in self._opened_folders())
        most = _most_opened()
        if num_left >= most:
            raise TooMany(
                f"jobs have opened {most} runs here; remove some, or raise {MOST_VARIABLE}"
            )

    def _opened_folders(self) -> Iterator[Path]:
        """Folders that hellos have opened, and unfinished ones that a killed server left behind."""
        for folder in list(self._runs.iterdir()):
            if folder.is_symlink() or not folder.is_dir():
                continue
            has_digest = os.path.lexists(folder / DIGEST_FILE)
            if folder.name.startswith(_NEW_FOLDER) or (
                has_digest and not os.path.lexists(folder / SECRET_FILE)
            ):
                yield folder

    def _forgotten(self, folder: Path) -> bool:
        """Remove a run that was opened long ago and never had data; whether it was removed."""
        if is_run_folder(folder) or self._is_connected(folder.name):
            return False
        with suppress(OSError):
            is_unfinished = folder.name.startswith(_NEW_FOLDER)
            state = folder.lstat() if is_unfinished else plain_file(folder / DIGEST_FILE)
            if time.time() - state.st_mtime >= FORGOTTEN_S:
                return _removed(folder)
        return False


def _most_opened() -> int:
    text = os.environ.get(MOST_VARIABLE, "")
    return int(text) if text.isdecimal() and len(text) < 10 else MOST_OPENED


def _removed(folder: Path) -> bool:
    """Remove a folder that contains only claims; whether it was removed; raises OSError.

    Follows no link, even if something else replaces the folder meanwhile.
    """
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        names = os.listdir(number)  # noqa: PTH208  # of the open folder, even if its path has changed
        if any(name not in (DIGEST_FILE, _ATTEMPTS) and name[-4:] != ".tmp" for name in names):
            return False
        for name in sorted(names):  # the digest is last
            if name == _ATTEMPTS:
                shutil.rmtree(name, dir_fd=number)
            else:
                os.unlink(name, dir_fd=number)
        folder.rmdir()
        return True
    finally:
        os.close(number)
