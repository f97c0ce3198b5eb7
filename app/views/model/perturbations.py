"""Perturbations that a run has recorded: what each was, on which ranks, in which steps, its end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.view_state import format_ranks
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.protocol.perturbations import MARK, Perturbation, of_mark

_Row = Mapping[str, Any]


@dataclass
class Recorded:
    """One perturbation of one attempt, put together from the marks of its ranks."""

    attempt: int
    asked: Perturbation
    begun: dict[int, int] = field(default_factory=dict)
    """first step perturbed, by rank"""
    ended: dict[int, int] = field(default_factory=dict)
    """last step perturbed, by rank; a rank that was lost has no end"""
    num_tensors: int = 0
    whys: dict[str, None] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Names it in links: the same id may be used again later."""
        return f"{self.attempt}.{self.asked.id}.{self.asked.steps[0]}"

    def add(self, row: _Row, told: Mapping[str, Any]) -> None:
        """Take over one mark."""
        rank, step = row["rank"], row["step"]
        if told.get("event") != "end":
            self.begun.setdefault(rank, step)
            return
        count, tensors = told.get("num_steps"), told.get("num_tensors")
        first = self.begun.setdefault(rank, step)
        self.ended[rank] = first + count - 1 if type(count) is int and count > 0 else step
        self.num_tensors += tensors if type(tensors) is int else 0
        self.whys.setdefault(str(told.get("why", ""))[:200])

    def to_json(self, is_going_on: bool, newest_step: int | None) -> dict[str, Any]:
        """What the page shows. `last`: the newest step seen while it is under way or cut off."""
        first, asked_last = min(self.begun.values()), self.asked.steps[1]
        is_over = self.begun.keys() <= self.ended.keys()
        so_far = asked_last if newest_step is None else min(asked_last, newest_step)
        last = max(self.ended.values()) if is_over else max(first, so_far)
        return {
            "key": self.key,
            "attempt": self.attempt,
            "perturbation": self.asked.to_json(),
            "text": self.asked.text,
            "ranks": format_ranks(sorted(self.begun)),
            "first": first,
            "last": last,
            "num_tensors": self.num_tensors,
            "state": "over" if is_over else "under way" if is_going_on else "cut off",
            "why": ", ".join(filter(None, self.whys)),
        }


def recorded_in(rows: Iterable[_Row]) -> list[Recorded]:
    """Perturbations in rows of the question `marks`, in order of their begin; damaged ones are
    left out.
    """
    found: dict[tuple[int, Perturbation], Recorded] = {}
    for row in rows:
        try:
            told = json.loads(row["args"] or "")
            asked = of_mark(told)
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
        key = row["attempt"], asked
        found.setdefault(key, Recorded(row["attempt"], asked)).add(row, told)
    return sorted(found.values(), key=lambda one: (one.attempt, min(one.begun.values())))


def recorded(run: Run, stop: Stop | None = None) -> list[Recorded]:
    """All perturbations of a run, of every attempt; raises UserError."""
    rows = run.ask("marks", stop=stop).to_pylist()
    return recorded_in(row for row in rows if row["kind"] == MARK)


def told(found: Iterable[Recorded], run: Run) -> list[dict[str, Any]]:
    """What the page shows of them now."""
    newest = run.newest_attempt
    is_running = run.state in ("running", "silent")
    last_steps = {row["attempt"]: row["last_step"] for row in run.ask("run_summary").to_pylist()}
    return [
        one.to_json(is_running and one.attempt == newest, last_steps.get(one.attempt))
        for one in found
    ]
