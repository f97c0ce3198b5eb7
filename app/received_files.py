"""Files of ranks that share no disk with the server: each is stored once, whatever dies when.

A segment is written whole to `incoming/`, then noted as received, then moved to `segments/`, where
the indexer may merge and remove it at any time. Who is killed in between finds after the note
either the file in `incoming/`, and moves it, or not, and then it was moved: what comes again is
known by its number, which goes up within a table. (A power failure may cost what came in the
seconds before it; nothing is flushed to the disk by force.)
"""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

from ingest.errors import UserError, disk_error
from trace_hooks.parcels import RUN_FILE, Parcel
from trace_hooks.schema import SegmentName, publish_json

LEAST_FREE = 256 << 20
_INCOMING, _RECEIVED = "incoming", "received"
_COUNTED = 10_000_000


class ReceivedFiles:
    """Files of one rank; safe from many threads. `folder`: of the run."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._note = folder / _RECEIVED / f"{rank:05d}.json"
        self._last: dict[str, int] = {}  # number of the last segment, by table and attempt
        self._is_open = False
        self._lock = threading.Lock()  # a thread may still store what came on the last connection

    def store(self, parcel: Parcel) -> None:
        """Store a file, unless it was stored before; raises UserError where that cannot be."""
        try:
            with self._lock:
                self._store(parcel)
        except OSError as error:
            self._is_open = False  # the disk says what was stored, not what was meant to be
            raise disk_error("a rank's file", error) from error

    def _store(self, parcel: Parcel) -> None:
        self._open()
        if shutil.disk_usage(self._folder).free < LEAST_FREE + len(parcel.data):
            raise UserError(f"the disk of {self._folder} is full; make room there")
        if parcel.segment is None:
            self._store_json(parcel)
        else:
            self._store_segment(parcel.segment, parcel.data)

    def _open(self) -> None:
        """Take up what the last server left."""
        if self._is_open and self._note.parent.exists():
            return
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

    def _store_segment(self, segment: SegmentName, data: bytes) -> None:
        if self._is_known(segment):
            return
        incoming = self._folder / _INCOMING / str(segment)
        incoming.write_bytes(data)
        self._last[_key(segment)] = segment.number
        publish_json(self._last, self._note)
        incoming.replace(self._folder / "segments" / str(segment))

    def _store_json(self, parcel: Parcel) -> None:
        path = self._folder / parcel.name
        if parcel.name == RUN_FILE and path.exists():
            return
        try:
            told: Any = json.loads(parcel.data)
        except (ValueError, RecursionError):
            raise UserError(f"{parcel.name} of rank {self._rank} is no JSON") from None
        self._require_same_start(path, told)
        publish_json(told, path)

    def _require_same_start(self, path: Path, told: Any) -> None:
        """Raise UserError where another start of the job took the same number of attempt.

        A node that is new to the run counts from 0 again; the rows of both would look the same.
        """
        if path.name == RUN_FILE or not path.exists():
            return
        before = json.loads(path.read_text("utf-8"))
        if not isinstance(told, dict) or before.get("started_ns") != told.get("started_ns"):
            raise UserError(
                f"another start of this job was {path.stem} already; keep TRACE_HOOKS_FOLDER from "
                "one start to the next, or name the run of each start"
            )


def _key(segment: SegmentName) -> str:
    """What counts segments: the rank itself from 0, the watchdog in its name from far above."""
    return f"{segment.table}-{segment.attempt:04d}-{segment.number // _COUNTED}"
