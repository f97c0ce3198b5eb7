"""The start-up of each rank: from the start of its process to the end of its first step.

Reads the answers `startup` and `first_steps`. Times are s since the first process of the attempt
started.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

QUESTIONS = ("startup", "first_steps")
INSIDE = " inside "
"""Between the job's own code and the call that it runs in (schema, startup.what)."""

FIRST_STEP, WARM_UP, NOT_RECORDED = "first step", "warm-up", "not recorded"
"""Parts next to the phases: what a usual step takes, by how much the first one is longer, and what
is in no row."""


@dataclass(frozen=True)
class Stretch:
    """What a rank did for a while."""

    phase: str
    what: str
    begin_s: float
    seconds: float

    @property
    def end_s(self) -> float:
        """When it ended, or was last seen."""
        return self.begin_s + self.seconds


@dataclass(frozen=True)
class RankStart:
    """One rank; what is not known yet, or was not recorded, is None. `seen_s`: its last sign."""

    rank: int
    host: str | None
    begin_s: float | None
    stretches: tuple[Stretch, ...]
    first_step: int | None
    step_begin_s: float | None
    step_end_s: float | None
    usual_step_s: float | None
    seen_s: float | None
    num_groups: int
    job_groups: int
    read_s: float
    read_bytes: int | None

    @property
    def is_over(self) -> bool:
        """Whether its first step has ended."""
        return self.step_end_s is not None

    @property
    def is_recorded(self) -> bool:
        """Whether its start-up was recorded."""
        return self.begin_s is not None

    @property
    def until_s(self) -> float:
        """The end of its first step; while it starts, the newest it was seen at."""
        ends = [stretch.end_s for stretch in self.stretches]
        return self.step_end_s if self.step_end_s is not None else max(ends, default=0.0)

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return max(self.until_s - (self.begin_s or 0.0), 0.0)

    @property
    def now(self) -> Stretch | None:
        """What it does now; None once it trains."""
        return None if self.is_over or not self.stretches else self.stretches[-1]

    @cached_property
    def parts(self) -> dict[str, float]:
        """Seconds of each phase, of the first step, and of what was not recorded: all of
        `seconds`.
        """
        parts: dict[str, float] = defaultdict(float)
        inside_s = 0.0
        for stretch in self.stretches:
            end_s = min(stretch.end_s, self.until_s)
            parts[stretch.phase] += max(end_s - stretch.begin_s, 0.0)
            if self.step_begin_s is not None:
                inside_s += max(end_s - max(stretch.begin_s, self.step_begin_s), 0.0)
        if self.step_begin_s is not None:
            step_s = max(self.until_s - self.step_begin_s - inside_s, 0.0)
            usual_s = step_s if self.usual_step_s is None else min(self.usual_step_s, step_s)
            parts[FIRST_STEP] = usual_s
            parts[WARM_UP] = step_s - usual_s
        parts[NOT_RECORDED] = max(self.seconds - sum(parts.values()), 0.0)
        return {name: seconds for name, seconds in parts.items() if seconds > 0}

    @property
    def recorded_share(self) -> float:
        """Share of its start-up that is in a part with a name."""
        return 1 - self.parts.get(NOT_RECORDED, 0.0) / self.seconds if self.seconds else 0.0


def starts_of(tables: Mapping[str, pa.Table]) -> list[RankStart]:
    """Every rank that is known, in ascending order."""
    stretches = defaultdict[int, list[Stretch]](list)
    for row in tables["startup"].to_pylist():
        stretches[row["rank"]].append(
            Stretch(row["phase"], row["what"], row["begin_s"], row["seconds"])
        )
    return [_start(row, stretches[row["rank"]]) for row in tables["first_steps"].to_pylist()]


def _start(row: Mapping[str, Any], stretches: list[Stretch]) -> RankStart:
    return RankStart(stretches=tuple(stretches), **row)
