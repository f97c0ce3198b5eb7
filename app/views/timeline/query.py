"""What a timeline asks of a run: spans, step windows and waits of some lanes in a window of time.

The answers are numpy columns (span_table.py), ns since the run's t0 on the aligned clock. Ranks
that recorded collectives but no span and no step (Flight Recorder dumps) have spans made of their
collectives, and one window: all of the record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from app.views.timeline.lanes import Place
from app.views.timeline.span_table import NO_STEP, Instances, SpanTable, StepWindows
from app.views.timeline.window import Extent, Window
from ingest.intervals import Bools
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.schema import UNKNOWN

_DRIFT_NS = 1_000_000_000
"""What a clock may drift from one estimate to the next, generously."""


def places_of(run: Run, attempt: int) -> dict[int, Place]:
    """Ranks of an attempt with coordinates and clocks."""
    rows = run.ask("clock_shifts", attempt=attempt).to_pylist()
    return {row["rank"]: Place(**row) for row in rows}


@dataclass(frozen=True)
class LaneQuery:
    """Some lanes of a run in a window of time; each method asks one question."""

    run: Run
    attempt: int
    lanes: list[Place]
    window: Window
    extent: Extent
    stop: Stop | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the lanes, in drawing order."""
        return tuple(place.rank for place in self.lanes)

    @property
    def t0_ns(self) -> int:
        """Unix ns that times are relative to."""
        return int(self.run.info["created_ns"])

    @property
    def has_only_collectives(self) -> Bools:
        """Which lanes have collectives but no spans."""
        return np.array([rank in self.extent.only_collectives for rank in self.ranks], dtype=bool)

    @property
    def num_steps(self) -> float:
        """About how many steps of a lane lie in the window."""
        if self.window.step is not None:
            return 1
        length_ns = max(self.extent.end_ns - self.extent.begin_ns, 1)
        share = min(self.window.length_ns / length_ns, 1)
        return (self.extent.last_step - self.extent.first_step + 1) * share

    def recorded(self) -> tuple[SpanTable, Instances, StepWindows]:
        """Everything."""
        windows = self.step_windows()
        return self.spans(), self.instances(windows), windows

    def step_windows(self) -> StepWindows:
        """When each lane's steps were."""
        wanted = self._window
        if self.window.step is not None:
            wanted = {"step_min": self.window.step, "step_max": self.window.step}
        windows = StepWindows.from_arrow(
            self._ask("step_windows", ranks=_listed(self.ranks), **wanted), self.ranks, self.t0_ns
        )
        known = self.extent.only_collectives
        if not known:
            return windows
        counts = [(lane, known[rank]) for lane, rank in enumerate(self.ranks) if rank in known]
        record = self.extent.begin_ns, self.extent.end_ns
        seen = self.window.begin_ns, self.window.end_ns
        return windows.joined(StepWindows.of_records(counts, record, seen))

    def spans(self) -> SpanTable:
        """Spans, and the collectives of lanes that have none."""
        rows = self._ask(
            "window_spans",
            step=self.window.step,
            **_range(self.ranks),
            **self._window,
            **self._own_clocks,
        )
        spans = SpanTable.from_arrow(rows, self.ranks, self.t0_ns)
        if not self.has_only_collectives.any():
            return spans
        rows = self._ask("window_collectives", **_range(self._ranks_of_collectives), **self._window)
        until_ns = self.extent.end_ns
        return spans.joined(SpanTable.from_collectives(rows, self.ranks, self.t0_ns, until_ns))

    def instances(self, windows: StepWindows) -> Instances:
        """Parts in collectives; none where no lane's clock is known, as none can have a verdict."""
        if all(place.shift_min_ns is None for place in self.lanes):
            return Instances.none()
        step_C = windows.step_C
        steps: dict[str, int] = {}  # all of them where those of a lane are not known
        if not (step_C == NO_STEP).any():
            steps = {
                "step_min": int(step_C.min()) if step_C.size else UNKNOWN,
                "step_max": int(step_C.max()) if step_C.size else UNKNOWN,
            }
        rows = self._ask("window_waits", ranks=_listed(self.ranks), **self._window, **steps)
        return Instances.from_arrow(rows, self.ranks, self.t0_ns, self.window.end_ns)

    def step_shares(self, pool: int) -> pa.Table:
        """Sums per step and kind, of `pool` steps each: costs the same however many spans."""
        return self._ask("step_shares", ranks=_listed(self.ranks), pool=pool, **self._own_clocks)

    def collective_bins(self, bin_ns: int) -> pa.Table:
        """Of lanes that have only collectives: those of each `bin_ns` together."""
        begin_ns, end_ns = self.seen_ns
        return self._ask(
            "collective_bins",
            **_range(self._ranks_of_collectives),
            begin_ns=begin_ns + self.t0_ns,
            end_ns=end_ns + self.t0_ns,
            bin_ns=bin_ns,
        )

    def least_bin_ns(self, most: int) -> int:
        """The shortest `collective_bins` of which there are at most `most`."""
        begin_ns, end_ns = self.seen_ns
        return math.ceil((end_ns - begin_ns) * len(self._ranks_of_collectives) / most)

    @property
    def seen_ns(self) -> tuple[int, int]:
        """The window up to the end of the record."""
        return self.window.begin_ns, min(self.window.end_ns, self.extent.end_ns)

    @property
    def _ranks_of_collectives(self) -> tuple[int, ...]:
        return tuple(rank for rank in self.ranks if rank in self.extent.only_collectives)

    @property
    def _window(self) -> dict[str, int]:
        """The window in Unix ns on the aligned clock."""
        return {
            "begin_ns": self.window.begin_ns + self.t0_ns,
            "end_ns": self.window.end_ns + self.t0_ns,
        }

    @property
    def _own_clocks(self) -> dict[str, int]:
        """A window in Unix ns on each lane's own clock that includes the wanted one."""
        known = [(place.shift_min_ns, place.shift_max_ns) for place in self.lanes]
        shifts = [0, *(shift for pair in known for shift in pair if shift is not None)]
        return {
            "from_ns": self.window.begin_ns + self.t0_ns - max(shifts) - _DRIFT_NS,
            "to_ns": self.window.end_ns + self.t0_ns - min(shifts) + _DRIFT_NS,
        }

    def _ask(self, question: str, **given: Any) -> pa.Table:
        return self.run.ask(question, attempt=self.attempt, stop=self.stop, **given)


def _range(ranks: tuple[int, ...]) -> dict[str, str | int]:
    return {"ranks": _listed(ranks), "rank_min": min(ranks), "rank_max": max(ranks)}


def _listed(ranks: tuple[int, ...]) -> str:
    return ",".join(map(str, ranks))
