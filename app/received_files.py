"""Files of ranks that share no disk with the server: each is stored once, whatever dies when.

A file is written whole to `incoming/` and looked at there; what is not what it claims to be goes to
`quarantine/`. A segment that is sound is noted as received, then moved to `segments/`, where
the indexer may merge and remove it at any time. Who is killed in between finds after the note
either the file in `incoming/`, and moves it, or not, and then it was moved: what comes again is
known by its number, which goes up within a table. (A power failure may cost what came in the
seconds before it; nothing is flushed to the disk by force.)
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ingest.errors import UserError, disk_error
from ingest.quarantine import Quarantine
from ingest.run_files import RUN_FILE, read_rank_info, read_run_info
from trace_hooks.job_claims import SECRET_FILE
from trace_hooks.parcels import Parcel
from trace_hooks.schema import SegmentName, publish_json, rank_file_name

LEAST_FREE = 256 << 20
MOST_JSON_BYTES = 1 << 20
_INCOMING, _RECEIVED = "incoming", "received"
_COUNTED = 10_000_000
_ENDED = "ended"

Check = Callable[[Path, SegmentName], str]
"""What is wrong with a file that shall be this segment, in one sentence; '' for nothing."""


def require_room(folder: Path, num_bytes: int = 0) -> None:
    """Raise UserError where so many bytes leave too little of the disk; raises OSError."""
    if shutil.disk_usage(folder).free < LEAST_FREE + num_bytes:
        raise UserError(f"the disk of {folder} is full; make room there")


class Closed(UserError):
    """A file of an attempt that its rank has ended."""


def has_ended(folder: Path, attempt: int, rank: int) -> bool:
    """Whether a rank has ended an attempt, by what the folder of its run says."""
    try:
        noted = json.loads(_note(folder, rank).read_text("utf-8"))
        return isinstance(noted, dict) and _ended(attempt) in noted
    except FileNotFoundError:  # it sends no files: it writes them here itself
        pass
    except (OSError, ValueError):
        return False
    try:
        return bool(read_rank_info(folder / "ranks" / rank_file_name(attempt, rank)).get("end"))
    except UserError:
        return False


class ReceivedFiles:
    """Files of one rank; safe from many threads. `folder`: of the run."""

    def __init__(self, folder: Path, rank: int, check: Check) -> None:
        self._folder, self._rank = folder, rank
        self._check = check
        self._quarantine = Quarantine(folder)
        self._note = _note(folder, rank)
        self._last: dict[str, int] = {}  # number of the last segment, by table and attempt
        self._is_open = False
        self._lock = threading.Lock()  # a thread may still store what came on the last connection

    def store(self, parcel: Parcel) -> str:
        """Store a file, unless it was stored before; why it was set aside instead, '' where it was
        not. Raises UserError where neither can be, Closed where its attempt has ended.
        """
        try:
            with self._lock:
                return self._store(parcel)
        except OSError as error:
            self._is_open = False  # the disk says what was stored, not what was meant to be
            raise disk_error("a rank's file", error) from error

    def end(self, attempt: int) -> None:
        """Note that the rank has ended an attempt and has sent all of it; raises UserError."""
        try:
            with self._lock:
                self._open()
                self._last[_ended(attempt)] = 1
                publish_json(self._last, self._note)
        except OSError as error:
            raise disk_error("a rank's file", error) from error

    def _store(self, parcel: Parcel) -> str:
        self._open()
        require_room(self._folder, len(parcel.data))
        if parcel.segment is None:
            return self._store_json(parcel)
        return self._store_segment(parcel.segment, parcel.data)

    def _open(self) -> None:
        """Take up what the last server left."""
        if self._is_open and self._note.parent.exists():
            return
        if (self._folder / SECRET_FILE).exists():
            raise UserError(
                "the ranks write into the folder that the server shows; leave TRACE_HOOKS_SHIP out"
            )
        for name in ("segments", "ranks", _INCOMING, _RECEIVED):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        self._last = {}
        try:
            self._last = {k: int(n) for k, n in json.loads(self._note.read_text("utf-8")).items()}
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, AttributeError):
            raise UserError(
                f"{self._note} is damaged: what of rank {self._rank} was stored is not known; "
                "remove the file, then some of it may be stored twice"
            ) from None
        for path in (self._folder / _INCOMING).glob(f"*-{self._rank:05d}-*.parquet"):
            segment = SegmentName.parse(path.name)
            if segment is not None and self._is_known(segment):
                path.replace(self._folder / "segments" / path.name)
            else:  # not whole, perhaps
                path.unlink()
        self._is_open = True

    def _is_known(self, segment: SegmentName) -> bool:
        return segment.number <= self._last.get(_key(segment), -1)

    def _store_segment(self, segment: SegmentName, data: bytes) -> str:
        if self._is_known(segment):
            return ""
        self._require_open(segment.attempt)
        incoming = self._folder / _INCOMING / str(segment)
        incoming.write_bytes(data)
        problem = self._check(incoming, segment)
        if problem:
            self._quarantine.set_aside(incoming, problem)
        self._last[_key(segment)] = segment.number
        publish_json(self._last, self._note)
        if not problem:
            incoming.replace(self._folder / "segments" / str(segment))
        return problem

    def _require_open(self, attempt: int) -> None:
        if _ended(attempt) in self._last:
            raise Closed(f"rank {self._rank} has ended attempt {attempt}; nothing is added to it")

    def _store_json(self, parcel: Parcel) -> str:
        path = self._folder / parcel.name
        if parcel.name == RUN_FILE and path.exists():
            return ""
        incoming = self._folder / _INCOMING / f"{self._rank:05d}" / Path(parcel.name).name
        incoming.parent.mkdir(exist_ok=True)
        incoming.write_bytes(parcel.data[: MOST_JSON_BYTES + 1])
        problem = self._problem_of_json(parcel, incoming)
        if problem:
            about = f"{parcel.name}, sent by rank {self._rank}, {problem}"
            self._quarantine.set_aside(incoming, about)
            return about
        told = json.loads(parcel.data)
        incoming.unlink()
        if self._is_same(path, told):
            return ""
        if parcel.attempt is not None:
            self._require_open(parcel.attempt)
        self._require_same_start(path, told)
        publish_json(told, path)
        return ""

    def _problem_of_json(self, parcel: Parcel, incoming: Path) -> str:
        """What is wrong with run.json or a rank's file; '' for nothing."""
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
            return f"is not read: {str(error).replace(str(incoming), 'it')}"

    @staticmethod
    def _is_same(path: Path, told: Any) -> bool:
        """Whether a file says this already."""
        try:
            return bool(json.loads(path.read_text("utf-8")) == told)
        except FileNotFoundError:
            return False

    def _require_same_start(self, path: Path, told: Any) -> None:
        """Raise UserError where another start of the job took the same number of attempt.

        A node that is new to the run counts from 0 again; the rows of both would look the same.
        """
        if path.name == RUN_FILE or not path.exists():
            return
        before = json.loads(path.read_text("utf-8"))
        if before.get("started_ns") != told.get("started_ns"):
            raise UserError(
                f"another start of this job was {path.stem} already; keep TRACE_HOOKS_FOLDER from "
                "one start to the next, or name the run of each start"
            )


def _note(folder: Path, rank: int) -> Path:
    return folder / _RECEIVED / f"{rank:05d}.json"


def _ended(attempt: int) -> str:
    return f"{_ENDED}-{attempt:04d}"


def _key(segment: SegmentName) -> str:
    """What counts segments: the rank itself from 0, the watchdog in its name from far above."""
    return f"{segment.table}-{segment.attempt:04d}-{segment.number // _COUNTED}"
