"""Files that wait on the rank's own disk until the server has them.

A segment is removed once the server has acknowledged that it is stored. The server recognises by
its name a file that is sent again after an interruption, so nothing is lost or doubled
(app/live/shipped_files.py).
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from trace_hooks.agent.log_messages import FewWarnings
from trace_hooks.protocol.file_transfer import RUN_FILE, Parcel, segment_path
from trace_hooks.schema import SegmentName
from trace_hooks.watchdog.reports import FIRST_NUMBER

LOOK_S = 0.2
AGAIN_S = 30.0
"""A file that is not acknowledged for this long is sent again."""


class Spool:
    """The files of one rank below its run's folder (agent's thread)."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._largest = 0  # bytes of the largest message that the server accepts
        self._waiting: list[SegmentName] = []
        self._stored: dict[str, bytes] = {}  # JSON files as the server has them
        self._sent: Parcel | None = None
        self._due_s = 0.0
        self._left: set[SegmentName] = set()  # segments that stay here
        self._unsent = FewWarnings("a file cannot be sent")

    def next(self) -> Parcel | None:
        """The file to send now, or None: JSON files first, then segments of each table in order."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return None
        parcel = self._changed_json() or self._next_segment()
        self._sent = parcel
        self._due_s = now_s + (LOOK_S if parcel is None else AGAIN_S)
        return parcel

    def stored(self, name: str) -> None:
        """The server has stored a file."""
        sent = self._sent
        if sent is None or sent.name != name:
            return
        if sent.segment is None:
            self._stored[name] = sent.data
        else:
            self._waiting = self._waiting[1:]
            if sent.segment.number < FIRST_NUMBER:
                (self._folder / name).unlink(missing_ok=True)
            else:  # the watchdog counts the files that are here
                self._left.add(sent.segment)
        self._sent, self._due_s = None, 0.0

    @property
    def is_sending(self) -> bool:
        """Whether a file was sent and is not acknowledged yet."""
        return self._sent is not None

    def begin(self, largest: int) -> None:
        """A new connection is open, for messages of at most `largest` bytes.

        A file that was not acknowledged on the last connection is sent again.
        """
        self._largest = largest
        self._sent, self._waiting, self._due_s = None, [], 0.0

    def is_empty(self) -> bool:
        """Whether the server has everything."""
        return self._sent is None and self._changed_json() is None and not self._listed()

    def _changed_json(self) -> Parcel | None:
        own = sorted((self._folder / "ranks").glob(f"*-{self._rank:05d}.json"))
        files = [*([self._folder / RUN_FILE] if self._rank == 0 else []), *own]
        for path in files:
            with suppress(OSError):  # not written yet
                name, data = path.relative_to(self._folder).as_posix(), path.read_bytes()
                if self._stored.get(name) != data:
                    return Parcel(name, data)
        return None

    def _next_segment(self) -> Parcel | None:
        self._waiting = self._waiting or self._listed()
        while self._waiting:
            name = segment_path(self._waiting[0])
            try:
                data = (self._folder / name).read_bytes()
            except OSError as error:
                self._unsent.warn(f"{name}: {error.strerror or error}")
                self._waiting = self._waiting[1:]
                continue
            if len(data) < self._largest - 1_000:
                return Parcel(name, data)
            self._unsent.warn(f"{name} is larger than the server accepts, and stays here")
            self._left.add(self._waiting[0])
            self._waiting = self._waiting[1:]
        return None

    def _listed(self) -> list[SegmentName]:
        names = [SegmentName.parse(path.name) for path in (self._folder / "segments").glob("*")]
        own = [name for name in names if name is not None and name.rank == self._rank]
        wanted = set(own) - self._left
        return sorted(wanted, key=lambda name: (name.attempt, name.table, name.number))
