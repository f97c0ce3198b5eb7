"""What part of a run an export takes, and a file that is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ingest.errors import UserError
from ingest.query.manifest import Narrowing


@dataclass(frozen=True)
class Window:
    """Part of a run; None and empty are all of it."""

    attempt: int | None = None
    ranks: tuple[int, ...] = ()
    steps: tuple[int, int] | None = None
    """first and last, both included"""
    t: tuple[int, int] | None = None
    """aligned ns since the run's t0; what reaches into it is taken whole"""

    def narrowing(self) -> Narrowing:
        """The files that can hold it; time is left to the rows, which have clocks of their own."""
        first, last = self.steps or (None, None)
        return Narrowing(
            attempt=self.attempt,
            rank_min=min(self.ranks, default=None),
            rank_max=max(self.ranks, default=None),
            step_min=first,
            step_max=last,
        )

    def params(self) -> dict[str, Any]:
        """Attempt, ranks and steps as the questions of exports take them."""
        values: dict[str, Any] = {"attempt": self.attempt}
        if self.ranks:
            values["ranks"] = ",".join(map(str, self.ranks))
            values |= {"rank_min": min(self.ranks), "rank_max": max(self.ranks)}
        if self.steps is not None:
            values |= {"step_min": self.steps[0], "step_max": self.steps[1]}
        return values

    def has_rank(self, rank: int) -> bool:
        """Whether a rank is part of it."""
        return not self.ranks or rank in self.ranks


def microseconds(ns: int) -> bytes:
    """Nanoseconds as a JSON number of microseconds, exactly: with three decimals."""
    whole, part = divmod(abs(ns), 1000)
    return b"%s%d.%03d" % (b"-" if ns < 0 else b"", whole, part)


@contextmanager
def published(out: Path) -> Iterator[BinaryIO]:
    """A file to write into, renamed to `out` at the end; nothing is left where that fails.

    Raises UserError where it cannot be written.
    """
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(out)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}; give another file") from None
    finally:
        temporary.unlink(missing_ok=True)
