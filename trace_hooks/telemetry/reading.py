"""What a source of telemetry is, and what it reads: plain values, or why there is none."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

NAN = float("nan")
_MOST_BYTES = 1 << 20


class Reading(NamedTuple):
    """One value; `reason`: why it could not be read (the value is NaN then)."""

    device: str
    metric: str
    value: float
    reason: str = ""
    rank: int = -1


class SourceError(Exception):
    """A source cannot be read; the text says why, in a few words."""


class Source(ABC):
    """One part of the machine.

    `every_s`: from one reading to the next; `scope`: whose figures they are; `read_ns`: when it
    was read, on the monotonic clock, if that is not now.
    """

    name: str
    every_s: float = 1.0
    scope: str = "host"
    read_ns: int = 0

    @abstractmethod
    def read(self) -> Iterable[Reading]:
        """Everything it can read now; raises SourceError, OSError, ValueError or LookupError."""


class OpenFile:
    """A file of /proc or /sys that stays open and is read from its beginning each time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def read(self) -> bytes:
        """Its content now; raises OSError."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(self._descriptor, _MOST_BYTES, 0)
            while more := os.pread(self._descriptor, _MOST_BYTES, len(data)):  # a page at a time
                data += more
        except OSError:
            self.close()
            raise
        return data

    def number(self) -> int:
        """A file that holds one number; raises OSError, ValueError."""
        return int(self.read())

    def close(self) -> None:
        """Close it; the next read opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def number_after(data: bytes, key: bytes) -> int:
    """The whole number that follows a key; raises LookupError where the key is not there."""
    at = data.find(key)
    if at < 0:
        raise LookupError(f"no {key.decode().strip()}")
    return int(data[at + len(key) : at + len(key) + 24].split(None, 1)[0])


def reason_of(error: Exception) -> str:
    """Why something could not be read, in a few words: EACCES, or what a library says."""
    if isinstance(error, FileNotFoundError):
        return f"not there: {error.filename}" if error.filename else "not there"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}" if not isinstance(error, SourceError) else str(error)
