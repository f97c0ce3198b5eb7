"""The last frames that ranks have sent, within a budget, and who watches them at what pace.

A browser that is slow has no queue: it has a list of the keys that are newer than what it was sent,
and gets what is the newest of each when its turn comes. So all browsers together hold no frame that
is not kept here anyway. For one event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from trace_hooks.protocol.frames import Frame

MOST_BYTES = 256 << 20
"""What the kept frames of all runs may have together; those that are old go first."""
MOST_FRAMES = 65_536

Key = tuple[str, int, str, str, int, int, str, str, int]
"""Run, rank, watch, what, layer, head, name, shard, sample."""


def key_of(run: str, rank: int, frame: Frame) -> Key:
    """What a frame shows; a newer one with the same key takes its place."""
    return (
        run,
        rank,
        frame.watch,
        frame.what,
        frame.layer,
        frame.head,
        frame.name,
        frame.shard,
        frame.sample,
    )


@dataclass(frozen=True)
class Wanted:
    """Which frames of a run somebody wants; an empty set means all."""

    run: str
    watches: frozenset[str] = frozenset()
    whats: frozenset[str] = frozenset()
    layers: frozenset[int] = frozenset()
    heads: frozenset[int] = frozenset()

    def has(self, key: Key) -> bool:
        """Whether frames with this key are among them."""
        run, _, watch, what, layer, head, *_ = key
        return run == self.run and all(
            not chosen or value in chosen
            for chosen, value in (
                (self.watches, watch),
                (self.whats, what),
                (self.layers, layer),
                (self.heads, head),
            )
        )


class Reader:
    """One browser: what is newer than what it has."""

    def __init__(self, kept: OrderedDict[Key, bytes], wanted: Wanted) -> None:
        self.wanted = wanted
        self.skipped = 0  # frames that newer ones replaced before they were sent
        self.news = asyncio.Event()
        self._kept = kept
        self._due: OrderedDict[Key, None] = OrderedDict.fromkeys(filter(wanted.has, kept))
        if self._due:
            self.news.set()

    def tell(self, key: Key) -> None:
        """There is a newer frame with this key."""
        if self.wanted.has(key):
            self.skipped += key in self._due
            self._due[key] = None
            self.news.set()

    @property
    def num_due(self) -> int:
        """Keys of which there is a newer frame."""
        return len(self._due)

    def take(self) -> bytes | None:
        """The newest frame of the key that has waited longest; None where there is no news."""
        while self._due:
            key, _ = self._due.popitem(last=False)
            found = self._kept.get(key)
            if found is not None:
                return found
        self.news.clear()
        return None


class LiveFrames:
    """The newest frame of every key, encoded, and the browsers that read them."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.num_bytes = 0
        self.num_dropped = 0  # frames for which there was no room
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._readers: set[Reader] = set()

    def put(self, key: Key, content: bytes) -> None:
        """Keep a frame and tell those who want it."""
        self._drop(key)
        if len(content) > self._most_bytes:
            self.num_dropped += 1
            return
        while self._kept and (
            self.num_bytes + len(content) > self._most_bytes or len(self._kept) >= MOST_FRAMES
        ):
            self._drop(next(iter(self._kept)))
            self.num_dropped += 1
        self._kept[key] = content
        self.num_bytes += len(content)
        for reader in self._readers:
            reader.tell(key)

    def forget(self, run: str) -> None:
        """Drop all frames of a run."""
        for key in [key for key in self._kept if key[0] == run]:
            self._drop(key)

    def open(self, wanted: Wanted) -> Reader:
        """Somebody who is told of all wanted frames, first of those that are kept."""
        reader = Reader(self._kept, wanted)
        self._readers.add(reader)
        return reader

    def close(self, reader: Reader) -> None:
        """Somebody has left."""
        self._readers.discard(reader)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._kept)

    def _drop(self, key: Key) -> None:
        old = self._kept.pop(key, None)
        if old is not None:
            self.num_bytes -= len(old)
