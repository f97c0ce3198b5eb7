"""How many samples a process has drawn of each source of a mixture.

The adapters count here: in the rank, and in each worker of its loaders, whose counts the rank adds
to its own. Takes no lock, since a process may be forked while another thread holds it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

UNHARMED = suppress(Exception)
"""Around what only records: batches matter more. The samples themselves raise as ever."""

MOST_SOURCES = 1_000
"""At most so many names of sources are counted."""

MOST_DRAWN = 100_000
"""Entries that wait to be taken; the oldest are forgotten."""


class Draws:
    """Samples drawn since they were last taken, and the shares that the mixtures plan."""

    current: ClassVar[Draws | None] = None
    """Of this process; None while nothing is recorded."""

    def __init__(self) -> None:
        self.planned: dict[str, float] = {}
        self._drawn: deque[tuple[str, int]] = deque(maxlen=MOST_DRAWN)
        self._thread = threading.local()

    @property
    def is_inside(self) -> bool:
        """Whether this thread draws a sample just now: it belongs to the mixture that began."""
        return getattr(self._thread, "is_inside", False)

    def enter(self) -> bool:
        """A mixture draws a sample, until `leave`; False where it does so for another mixture."""
        if self.is_inside:
            return False
        self._thread.is_inside = True
        return True

    def leave(self) -> None:
        """The sample is drawn."""
        self._thread.is_inside = False

    def begin(self, source: str) -> Any:
        """As `enter`, of a sample that counts; returns what `end` needs, None where it does not."""
        return source if self.enter() else None

    def end(self, begun: Any) -> None:
        """The sample of `begin` is drawn, or has raised."""
        self.leave()
        self.add(begun)

    def add(self, source: str, samples: int = 1) -> None:
        """Count them, unless they are drawn for another mixture."""
        if not self.is_inside:
            self._drawn.append((source, samples))

    def plan(self, names: Sequence[str], weights: Sequence[float] | None) -> None:
        """A mixture's sources and their weights; None where it plans none.

        Each counts with 0 samples, so that one that never comes is seen. Raises TypeError or
        ValueError for weights that are no numbers.
        """
        if weights is None or len(names) != len(weights) or len(names) > MOST_SOURCES:
            return
        numbers = [float(weight) for weight in weights]
        total = sum(numbers)
        if total > 0 and min(numbers) >= 0:
            shares = {name: number / total for name, number in zip(names, numbers, strict=True)}
            self.planned |= shares
            self._drawn.extend((name, 0) for name in names)

    def plan_one(self, source: str, share: float) -> None:
        """The share of one source, as a worker knows it; -1 unknown."""
        if share >= 0:
            self.planned[source] = share

    def add_transform(self, name: str, ns: int) -> None:
        """Time of a transform that the job marks; workers record it."""

    def take(self) -> dict[str, int]:
        """Samples by source since the last call."""
        found: dict[str, int] = {}
        while self._drawn:
            source, samples = self._drawn.popleft()
            if source in found or len(found) < MOST_SOURCES:
                found[source] = found.get(source, 0) + samples
        return found
