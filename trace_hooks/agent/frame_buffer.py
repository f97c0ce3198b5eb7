"""Frames that wait to be sent: bounded, the newest of each key, with a count of those left out."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

MOST_BYTES = 64 << 20
"""Most bytes of waiting frames."""
MOST_FRAMES = 16_384


class Frame(Protocol):
    """The part of trace_hooks.protocol.frames.Frame that the agent needs."""

    watch: str
    what: str
    layer: int
    head: int
    name: str
    shard: str
    sample: int
    data: bytes

    def encode(self) -> bytes:
        """The frame's bytes on the wire."""


def key_of(frame: Frame) -> tuple[object, ...]:
    """What a frame shows; a newer frame with the same key replaces it."""
    return (frame.watch, frame.what, frame.layer, frame.head, frame.name, frame.shard, frame.sample)


class Outbox:
    """Waiting frames; thread-safe, and `put` never waits for the thread that takes them."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.thinned = 0  # frames that were replaced, or for which there was no room
        self._most_bytes = most_bytes
        self._num_bytes = 0
        self._frames: OrderedDict[tuple[object, ...], Frame] = OrderedDict()
        self._changed = threading.Condition()
        self._woken = False

    def put(self, frame: Frame) -> None:
        """Add a frame to be sent; drops the oldest ones where there is no room."""
        key, num_bytes = key_of(frame), len(frame.data)
        with self._changed:
            if num_bytes > self._most_bytes:
                self.thinned += 1
                return
            self._drop(key)
            while self._frames and (
                self._num_bytes + num_bytes > self._most_bytes or len(self._frames) >= MOST_FRAMES
            ):
                self._drop(next(iter(self._frames)))
            self._frames[key] = frame
            self._num_bytes += num_bytes
            self._changed.notify()

    def take(self, wait_s: float) -> Frame | None:
        """The frame that has waited longest; None after `wait_s` without one, or after `wake`."""
        with self._changed:
            if not self._frames and not self._woken:
                self._changed.wait(wait_s)
            self._woken = False
            if not self._frames:
                return None
            _, frame = self._frames.popitem(last=False)
            self._num_bytes -= len(frame.data)
            return frame

    def leave_out(self) -> None:
        """Count a frame that was taken and cannot be sent."""
        with self._changed:
            self.thinned += 1

    def wake(self) -> None:
        """End the running or the next wait of `take`."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    @property
    def num_bytes(self) -> int:
        """Bytes of the frames that wait."""
        return self._num_bytes

    def _drop(self, key: tuple[object, ...]) -> None:
        old = self._frames.pop(key, None)
        if old is not None:
            self._num_bytes -= len(old.data)
            self.thinned += 1
