"""The newest frames of the ranks, within a memory budget, and the browsers that read them.

A slow browser has no queue of frames: it has a list of the keys with frames newer than those it was
sent, and gets the newest frame of each key. So all browsers together hold no frame that is not in
this cache. For one event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from trace_hooks.protocol.frames import Frame

MOST_BYTES = 256 << 20
"""Budget for the frames of all runs together; the oldest is evicted first."""
MOST_FRAMES = 65_536

Key = tuple[str, int, str, str, int, int, str, str, int]
"""Run, rank, watch, what, layer, head, name, shard, sample."""


def key_of(run: str, rank: int, frame: Frame) -> Key:
    """What a frame shows; a newer frame with the same key replaces it."""
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
    """Which frames of a run a browser wants; an empty set means all."""

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
    """One browser: the keys with frames newer than those it has."""

    def __init__(self, frames: OrderedDict[Key, bytes], wanted: Wanted) -> None:
        self.wanted = wanted
        self.skipped = 0  # frames that newer ones replaced before they were sent
        self.news = asyncio.Event()
        self._frames = frames
        self._due: OrderedDict[Key, None] = OrderedDict.fromkeys(filter(wanted.has, frames))
        if self._due:
            self.news.set()

    def notify(self, key: Key) -> None:
        """Note that there is a newer frame with this key."""
        if self.wanted.has(key):
            self.skipped += key in self._due
            self._due[key] = None
            self.news.set()

    @property
    def num_due(self) -> int:
        """Number of keys with a newer frame."""
        return len(self._due)

    def take(self) -> bytes | None:
        """The newest frame of the key that has waited longest; None if there is no newer frame."""
        while self._due:
            key, _ = self._due.popitem(last=False)
            content = self._frames.get(key)
            if content is not None:
                return content
        self.news.clear()
        return None


class FrameCache:
    """The newest frame of every key, encoded, and the browsers that read them."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.num_bytes = 0
        self.num_dropped = 0  # frames for which there was no room
        self._most_bytes = most_bytes
        self._frames: OrderedDict[Key, bytes] = OrderedDict()
        self._readers: set[Reader] = set()

    def put(self, key: Key, content: bytes) -> None:
        """Store a frame and notify the readers that want it."""
        self._drop(key)
        if len(content) > self._most_bytes:
            self.num_dropped += 1
            return
        while self._frames and (
            self.num_bytes + len(content) > self._most_bytes or len(self._frames) >= MOST_FRAMES
        ):
            self._drop(next(iter(self._frames)))
            self.num_dropped += 1
        self._frames[key] = content
        self.num_bytes += len(content)
        for reader in self._readers:
            reader.notify(key)

    def forget(self, run: str) -> None:
        """Drop all frames of a run."""
        for key in [key for key in self._frames if key[0] == run]:
            self._drop(key)

    def open(self, wanted: Wanted) -> Reader:
        """A reader that is notified of all wanted frames, beginning with the cached ones."""
        reader = Reader(self._frames, wanted)
        self._readers.add(reader)
        return reader

    def close(self, reader: Reader) -> None:
        """Stop notifying a reader."""
        self._readers.discard(reader)

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._frames)

    def _drop(self, key: Key) -> None:
        old = self._frames.pop(key, None)
        if old is not None:
            self.num_bytes -= len(old)
