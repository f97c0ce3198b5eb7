"""Files of ranks that share no disk with the server: each is stored exactly once, even after
crashes.

The server writes a file completely to `incoming/` and checks it there; a file that is not what it
claims to be goes to `quarantine/`. The server records a valid segment as received, then moves it to
`segments/`, where the indexer may merge and remove it at any time. If the server is killed between
these two steps, the next one either finds the recorded file in `incoming/` and moves it, or it was
moved already. The server recognises a segment that arrives again by its number, which increases
within a table. (A power failure may lose the files of the last seconds; nothing is flushed to the
disk by force.) A file of an attempt that its rank has ended goes to `quarantine/` as well: the
attempt stays as it is, and the rank can continue.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ingest.errors import UserError, disk_error
from ingest.index.quarantine import Quarantine
from ingest.run_folder.run_files import RUN_FILE, read_rank_info, read_run_info
from ingest.run_folder.run_paths import RECEIVING, read_plain_file, require_no_links, write_new_file
from trace_hooks.protocol.file_transfer import Parcel
from trace_hooks.protocol.job_claims import SECRET_FILE
from trace_hooks.schema import SegmentName, publish_json, rank_file_name

LEAST_FREE = 256 << 20
MOST_JSON_BYTES = 1 << 20
MOST_UNFIT = 100
"""Invalid files of one rank; the server accepts no further files of that rank."""
_LONGEST_NOTE = 64 << 20
_INCOMING, _RECEIVED = "incoming", "received"
_COUNTED = 10_000_000
_ENDED = "ended"

Check = Callable[[Path, SegmentName], str]
"""What is wrong with a file that should be this segment, in one sentence; '' if nothing."""


def require_room(folder: Path, num_bytes: int = 0) -> None:
    """Raise UserError if this many bytes would fill the disk too far; raises OSError."""
    if shutil.disk_usage(folder).free < LEAST_FREE + num_bytes:
        raise UserError(f"the disk of {folder} is full; make room there")


def has_ended(folder: Path, attempt: int, rank: int) -> bool:
    """Whether a rank has ended an attempt, according to the run's folder."""
    try:
        noted = _read_json(_note(folder, rank))
        return isinstance(noted, dict) and _ended(attempt) in noted
    except FileNotFoundError:  # the rank sends no files: it writes them here itself
        pass
    except (OSError, ValueError, RecursionError):
        return False
    try:
        return bool(read_rank_info(folder / "ranks" / rank_file_name(attempt, rank)).get("end"))
    except UserError:
        return False


class ShippedFiles:
    """Files of one rank; safe for many threads. `folder`: of the run."""

    def __init__(self, folder: Path, rank: int, check: Check) -> None:
        self._folder, self._rank = folder, rank
        self._check = check
        self._quarantine = Quarantine(folder)
        self._note = _note(folder, rank)
        self._last: dict[str, int] = {}  # number of the last segment, by table and attempt
        self._num_unfit = 0
        self._is_open = False
        self._lock = threading.Lock()  # a thread may still store a file from the last connection

    def store(self, parcel: Parcel) -> str:
        """Store a file, unless it was stored before; returns why it was quarantined instead, '' if
        it was not. Raises UserError if neither is possible.
        """
        try:
            with self._lock:
                return self._store(parcel)
        except OSError as error:
            self._is_open = False  # read again from the disk what was really stored
            raise disk_error("a rank's file", error) from error

    def end(self, attempt: int) -> None:
        """Record that the rank has ended an attempt and sent all its files; raises UserError."""
        try:
            with self._lock:
                self._open()
                self._last[_ended(attempt)] = 1
                publish_json(self._last, self._note)
        except OSError as error:
            raise disk_error("a rank's file", error) from error

    def _store(self, parcel: Parcel) -> str:
        self._open()
        if self._num_unfit >= MOST_UNFIT:
            raise UserError(
                f"{MOST_UNFIT} files of rank {self._rank} were not what they claimed to be; "
                "the server accepts no more of them"
            )
        require_room(self._folder, len(parcel.data))
        if parcel.segment is None:
            return self._store_json(parcel)
        return self._store_segment(parcel.segment, parcel.data)

    def _open(self) -> None:
        """Continue with the state that the last server left; refuses folders that are links."""
        require_no_links(self._folder, *RECEIVING)
        if self._is_open and self._note.parent.exists():
            return
        if (self._folder / SECRET_FILE).exists():
            raise UserError(
                "the ranks write into the folder that the server shows; unset TRACE_HOOKS_SHIP"
            )
        for name in ("segments", "ranks", _INCOMING, _RECEIVED):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        self._last = {}
        try:
            self._last = {key: int(number) for key, number in _read_json(self._note).items()}
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            raise UserError(
                f"{self._note} is damaged, so it is unknown which files of rank {self._rank} were "
                "stored; remove it, then some of them may be stored twice"
            ) from None
        for path in (self._folder / _INCOMING).glob(f"*-{self._rank:05d}-*.parquet"):
            segment = SegmentName.parse(path.name)
            if segment is not None and self._is_known(segment):
                path.replace(self._folder / "segments" / path.name)
            else:  # perhaps incomplete
                path.unlink()
        self._is_open = True

    def _is_known(self, segment: SegmentName) -> bool:
        return segment.number <= self._last.get(_key(segment), -1)

    def _store_segment(self, segment: SegmentName, data: bytes) -> str:
        if self._is_known(segment):
            return ""
        incoming = self._folder / _INCOMING / str(segment)
        write_new_file(incoming, data)
        late = self._late(str(segment), segment.attempt)
        problem = late or self._check(incoming, segment)
        if problem:
            self._set_aside(incoming, problem, is_unfit=not late)
        self._last[_key(segment)] = segment.number
        publish_json(self._last, self._note)
        if not problem:
            incoming.replace(self._folder / "segments" / str(segment))
        return problem

    def _late(self, name: str, attempt: int | None) -> str:
        """What is wrong with a file of an attempt that the rank has ended; '' for other
        attempts.
        """
        if attempt is None or _ended(attempt) not in self._last:
            return ""
        return f"{name} arrived after rank {self._rank} had ended attempt {attempt}"

    def _store_json(self, parcel: Parcel) -> str:
        path = self._folder / parcel.name
        if parcel.name == RUN_FILE and path.exists():
            return ""
        incoming = self._folder / _INCOMING / f"{self._rank:05d}" / Path(parcel.name).name
        require_no_links(incoming.parent.parent, incoming.parent.name)
        incoming.parent.mkdir(exist_ok=True)
        write_new_file(incoming, parcel.data[: MOST_JSON_BYTES + 1])
        problem = self._problem_of_json(parcel, incoming)
        if problem:
            about = f"{parcel.name}, sent by rank {self._rank}, {problem}"
            return self._set_aside(incoming, about, is_unfit=True)
        info, known = json.loads(parcel.data), self._known(path)
        late = self._late(parcel.name, parcel.attempt)
        if late and info != known:
            return self._set_aside(incoming, late, is_unfit=False)
        incoming.unlink()
        if info != known:
            self._require_same_start(path, info, known)
            publish_json(info, path)
        return ""

    def _set_aside(self, incoming: Path, problem: str, *, is_unfit: bool) -> str:
        self._quarantine.set_aside(incoming, problem)
        self._num_unfit += is_unfit
        return problem

    def _problem_of_json(self, parcel: Parcel, incoming: Path) -> str:
        """What is wrong with run.json or a rank's file; '' if nothing."""
        if len(parcel.data) > MOST_JSON_BYTES:
            return f"has {len(parcel.data):,} bytes; it has at most {MOST_JSON_BYTES:,}"
        try:
            if parcel.name == RUN_FILE:
                run = read_run_info(incoming.parent)
                is_own = (run["run"], run["source"]) == (self._folder.name, "hooks")
                return "" if is_own and not run.get("importing") else "is that of another run"
            info = read_rank_info(incoming)
            is_own = (info["attempt"], info["rank"]) == (parcel.attempt, self._rank)
            return "" if is_own else "is that of another rank or attempt"
        except UserError as error:
            return f"cannot be read: {str(error).replace(str(incoming), 'it')}"

    @staticmethod
    def _known(path: Path) -> Any:
        """Content of an existing file; None if there is none or a crash has damaged it."""
        try:
            return _read_json(path)
        except (FileNotFoundError, ValueError, RecursionError):
            return None

    @staticmethod
    def _require_same_start(path: Path, info: Any, known: Any) -> None:
        """Raise UserError if another start of the job used the same attempt number.

        A node that is new to the run counts from 0 again; the rows of both would look the same.
        """
        if path.name == RUN_FILE or not isinstance(known, dict):
            return
        if known.get("started_ns") != info.get("started_ns"):
            raise UserError(
                f"another start of this job was {path.stem} already; keep TRACE_HOOKS_FOLDER from "
                "one start to the next, or name the run of each start"
            )


def _read_json(path: Path) -> Any:
    """Content of a JSON file; raises OSError, ValueError, RecursionError."""
    return json.loads(read_plain_file(path, _LONGEST_NOTE))


def _note(folder: Path, rank: int) -> Path:
    return folder / _RECEIVED / f"{rank:05d}.json"


def _ended(attempt: int) -> str:
    return f"{_ENDED}-{attempt:04d}"


def _key(segment: SegmentName) -> str:
    """Key of a segment counter: the rank counts from 0, its watchdog from a much higher number."""
    return f"{segment.table}-{segment.attempt:04d}-{segment.number // _COUNTED}"
