"""Recorded perturbations of a run: their settings, ranks, steps and how they ended."""

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
    """One perturbation of one attempt, assembled from the marks of its ranks."""

    attempt: int
    requested: Perturbation
    begun: dict[int, int] = field(default_factory=dict)
    """first step perturbed, by rank"""
    ended: dict[int, int] = field(default_factory=dict)
    """last step perturbed, by rank; a lost rank has no end"""
    num_tensors: int = 0
    whys: dict[str, None] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its key in links: the same id may be used again later."""
        return f"{self.attempt}.{self.requested.id}.{self.requested.steps[0]}"

    def add(self, row: _Row, content: Mapping[str, Any]) -> None:
        """Add one mark."""
        rank, step = row["rank"], row["step"]
        if content.get("event") != "end":
            self.begun.setdefault(rank, step)
            return
        count, tensors = content.get("num_steps"), content.get("num_tensors")
        first = self.begun.setdefault(rank, step)
        self.ended[rank] = first + count - 1 if type(count) is int and count > 0 else step
        self.num_tensors += tensors if type(tensors) is int else 0
        self.whys.setdefault(str(content.get("why", ""))[:200])

    def to_json(self, is_going_on: bool, newest_step: int | None) -> dict[str, Any]:
        """The perturbation as the page shows it. `last`: the newest step while it is running or cut
        off.
        """
        first, requested_last = min(self.begun.values()), self.requested.steps[1]
        is_over = self.begun.keys() <= self.ended.keys()
        so_far = requested_last if newest_step is None else min(requested_last, newest_step)
        last = max(self.ended.values()) if is_over else max(first, so_far)
        return {
            "key": self.key,
            "attempt": self.attempt,
            "perturbation": self.requested.to_json(),
            "text": self.requested.text,
            "ranks": format_ranks(sorted(self.begun)),
            "first": first,
            "last": last,
            "num_tensors": self.num_tensors,
            "state": "over" if is_over else "under way" if is_going_on else "cut off",
            "why": ", ".join(filter(None, self.whys)),
        }


def recorded_in(rows: Iterable[_Row]) -> list[Recorded]:
    """Perturbations in rows of the query `marks`, in order of their first step; skips damaged
    rows.
    """
    perturbations: dict[tuple[int, Perturbation], Recorded] = {}
    for row in rows:
        try:
            content = json.loads(row["args"] or "")
            requested = of_mark(content)
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
        key = row["attempt"], requested
        perturbations.setdefault(key, Recorded(row["attempt"], requested)).add(row, content)
    return sorted(
        perturbations.values(),
        key=lambda recorded: (recorded.attempt, min(recorded.begun.values())),
    )


def recorded(run: Run, stop: Stop | None = None) -> list[Recorded]:
    """All perturbations of a run, of every attempt; raises UserError."""
    rows = run.ask("marks", stop=stop).to_pylist()
    return recorded_in(row for row in rows if row["kind"] == MARK)


def as_json(perturbations: Iterable[Recorded], run: Run) -> list[dict[str, Any]]:
    """The perturbations as the page shows them now."""
    newest = run.newest_attempt
    is_running = run.state in ("running", "silent")
    last_steps = {row["attempt"]: row["last_step"] for row in run.ask("run_summary").to_pylist()}
    return [
        recorded.to_json(
            is_running and recorded.attempt == newest, last_steps.get(recorded.attempt)
        )
        for recorded in perturbations
    ]
