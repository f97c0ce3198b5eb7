"""Where the wall time of a run went over its attempts, and how often it was interrupted.

Reads the answer `goodput`. An attempt is interrupted where a later one follows and not all of its
ranks ended by themselves, or where it was the last and a rank failed or was lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, median
from typing import Any

import pyarrow as pa

QUESTION = "goodput"
PARTS = ("productive", "checkpoint", "evaluation", "rewound", "start_up", "stalled", "restart")
"""In the order in which they are shown; the answer has a column of seconds for each."""

FINISHED, FAILED, STOPPED, KILLED = "finished", "failed", "stopped", "killed"
RUNNING, UNKNOWN = "running", "not recorded"


@dataclass(frozen=True)
class Attempt:
    """One start of the job. `wall_s` None: when it started is unknown. `unaccounted_s`: of the wall
    time, in no part. `ended`: finished, failed, stopped (by a signal, in order), killed (a rank did
    not say how it ended), running, or not recorded.
    """

    attempt: int
    wall_s: float | None
    parts: Mapping[str, float]
    unaccounted_s: float
    ended: str
    first_step: int | None
    last_step: int | None
    num_saves: int
    save_s: float | None
    interval_s: float | None

    @property
    def num_steps(self) -> int:
        """Steps from its first to its last finished one."""
        if self.first_step is None or self.last_step is None:
            return 0
        return self.last_step - self.first_step + 1


@dataclass(frozen=True)
class Ledger:
    """All attempts, oldest first; at least one."""

    attempts: tuple[Attempt, ...]

    @cached_property
    def wall_s(self) -> float | None:
        """From the first attempt's start to the end; None where a start is unknown."""
        walls = [attempt.wall_s for attempt in self.attempts]
        return None if None in walls else sum(wall or 0.0 for wall in walls)

    @cached_property
    def totals(self) -> dict[str, float]:
        """Seconds of each part, over all attempts."""
        return {part: sum(one.parts[part] for one in self.attempts) for part in PARTS}

    @property
    def effective_share(self) -> float | None:
        """Effective training time ratio: productive / wall time, 0 to 1; None unknown."""
        return self.totals["productive"] / self.wall_s if self.wall_s else None

    @property
    def interrupted(self) -> list[Attempt]:
        """Attempts that did not end in order."""
        *before, last = self.attempts
        return [one for one in before if one.ended not in (FINISHED, UNKNOWN)] + [
            one for one in [last] if one.ended in (FAILED, KILLED)
        ]

    @property
    def at_risk_s(self) -> float | None:
        """Time in which the job ran and could be interrupted."""
        return None if self.wall_s is None else self.wall_s - self.totals["restart"]

    @property
    def save_s(self) -> float | None:
        """What a save costs the job, mean; None without saves."""
        return self._per_save("save_s")

    @property
    def interval_s(self) -> float | None:
        """Time from one save to the next, median of the attempts' medians; None unknown."""
        known = [one.interval_s for one in self.attempts if one.interval_s]
        return median(known) if known else None

    @property
    def restart_s(self) -> float | None:
        """What an interruption costs besides the steps that are repeated: the hang before it, the
        restart and the next start-up, mean; None where there was none yet.
        """
        costs = [
            one.parts["stalled"] + one.parts["restart"] + after.parts["start_up"]
            for one, after in zip(self.attempts, self.attempts[1:], strict=False)
            if one.ended not in (FINISHED, UNKNOWN)
        ]
        return mean(costs) if costs else None

    def _per_save(self, name: str) -> float | None:
        known = [(getattr(one, name), one.num_saves) for one in self.attempts if one.num_saves]
        known = [(value, number) for value, number in known if value is not None]
        number = sum(number for _, number in known)
        return sum(value * times for value, times in known) / number if number else None


_NO_WALL_TIME = {"wall_s": None, "start_up_s": 0.0, "stalled_s": 0.0, "restart_s": 0.0}


def ledger_of(
    answer: pa.Table, is_running: bool, has_ends: bool = True, has_wall_time: bool = True
) -> Ledger | None:
    """The ledger of the answer `goodput`; None where there is no attempt.

    `has_ends`: what recorded the run also recorded how its ranks ended. `has_wall_time`: it has one
    clock for all steps; where times count from the begin of each step, only step times are known.
    """
    rows = answer.to_pylist()
    if not rows:
        return None
    newest = len(rows) - 1
    return Ledger(
        tuple(
            _attempt(
                row if has_wall_time else row | _NO_WALL_TIME,
                _ended(row, is_running and at == newest) if has_ends else UNKNOWN,
            )
            for at, row in enumerate(rows)
        )
    )


def _attempt(row: Mapping[str, Any], ended: str) -> Attempt:
    parts = {part: row[f"{part}_s"] or 0.0 for part in PARTS}
    wall_s = row["wall_s"]
    return Attempt(
        attempt=row["attempt"],
        wall_s=wall_s,
        parts=parts,
        unaccounted_s=0.0 if wall_s is None else wall_s - sum(parts.values()),
        ended=ended,
        first_step=row["first_step"],
        last_step=row["last_step"],
        num_saves=row["num_saves"],
        save_s=row["save_s"],
        interval_s=row["interval_s"],
    )


def _ended(row: Mapping[str, Any], is_running: bool) -> str:
    if is_running:
        return RUNNING
    if row["num_failed"]:
        return FAILED
    num_ranks, finished = row["num_ranks"] or 1, row["num_finished"]
    if finished >= num_ranks:
        return FINISHED
    return STOPPED if finished + row["num_stopped"] >= num_ranks else KILLED


def shares_of(attempts: Sequence[Attempt]) -> dict[str, float]:
    """Share of each part in the wall time of these attempts, 0 to 1; empty where it is unknown."""
    wall_s = sum(one.wall_s or 0.0 for one in attempts)
    if not wall_s:
        return {}
    return {part: sum(one.parts[part] for one in attempts) / wall_s for part in PARTS}
