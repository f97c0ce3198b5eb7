"""One metric for every rank and step of a run, with its peers and its colour: what pictures draw.

Shape suffixes: R rank (a row), S step (a column).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from app.views import scales
from app.views.peers import group_ids, peers_median, spread, spread_within_step
from app.views.scales import Bytes, Floats, Ints, Metric
from ingest.sandbox import Stop
from ingest.store import Run

LAST_STEPS = 20
"""Steps over which a rank is judged where nobody chose others: as slowest_ranks does."""

Steps = tuple[int, int]


@dataclass(frozen=True)
class Places:
    """Who the ranks are, ordered by rank; -1 in a coordinate is unknown."""

    rank_R: Ints
    hosts: list[str]
    coords: dict[str, Ints]
    """pp, dp, cp, tp: index on the axis"""

    @property
    def has_layout(self) -> bool:
        """Whether every rank has a place on at least one axis."""
        return bool(len(self.rank_R)) and any((c >= 0).all() for c in self.coords.values())


def places(run: Run, attempt: int | None = None, stop: Stop | None = None) -> Places:
    """The ranks of an attempt (default: the newest) and where they stand."""
    table = run.ask("rank_list", attempt=attempt, stop=stop)
    coords = {
        axis: _numbers(table.column(axis).fill_null(-1)).astype(np.int64)
        for axis in ("pp", "dp", "cp", "tp")
    }
    rank_R = _numbers(table.column("rank")).astype(np.int64)
    return Places(rank_R, table.column("host").to_pylist(), coords)


@dataclass(frozen=True)
class Cells:
    """Values of a metric; rows are the ranks of the newest attempt shown, in order of rank."""

    metric: Metric
    places: Places
    steps_S: Ints
    value_RS: Floats
    """in the metric's unit; NaN not recorded"""
    peers_RS: Floats
    """median of the peers, in ms (also for slowdown)"""
    deviation_RS: Floats
    spread_RS: Floats
    """MAD of the peers' deviations over 20 steps"""
    spread_in_step_RS: Floats
    group_R: Ints
    """ranks with one number are each other's peers (in the newest attempt shown)"""
    step_ms: float
    """median step time of the job over these steps"""

    @cached_property
    def code_RS(self) -> Bytes:
        """Colour of every single cell."""
        factor = scales.noise_factor(self.deviation_RS.size)
        noise = factor * np.fmax(self.spread_RS, self.spread_in_step_RS)
        return scales.codes(self.deviation_RS, noise, self.metric.full)

    @property
    def legend(self) -> dict[str, object]:
        """For the browser: see scales.legend."""
        typical = float(np.nanmedian(self.spread_RS)) if self.has_values else float("nan")
        factor = scales.noise_factor(self.deviation_RS.size)
        return scales.legend(self.metric, self.step_ms, factor * typical)

    @property
    def has_values(self) -> bool:
        """Whether anything at all was recorded."""
        return bool(self.deviation_RS.size) and not bool(np.isnan(self.deviation_RS).all())


def cells(
    run: Run, metric: Metric, attempt: int | None = None, steps: Steps | None = None,
    stop: Stop | None = None,
) -> Cells:  # fmt: skip
    """Cells of a metric over the finished steps first..last (default: all)."""
    low, high = steps or (0, 2**63 - 2)
    table = run.ask(
        "rank_cells", metric=metric.asks, step_min=low, step_max=high, attempt=attempt, stop=stop
    )
    step_ms = _job_step_ms(run, attempt, (low, high), stop)
    rank_N, step_N, value_N = (_numbers(table.column(c)) for c in ("rank", "step", "value_ms"))
    first, last = (int(step_N.min()), int(step_N.max())) if len(step_N) else (0, -1)
    steps_S = np.arange(first, last + 1)
    attempt_S = _attempts(run, steps_S, attempt)
    shown = places(run, int(attempt_S[-1]) if len(attempt_S) else attempt, stop)
    row_of = np.full(int(max(rank_N.max(initial=-1), shown.rank_R.max(initial=-1))) + 2, -1)
    row_of[shown.rank_R] = np.arange(len(shown.rank_R))
    row_N = row_of[rank_N]
    # one row more than there are ranks: what belongs to a rank of an older attempt only goes there
    value_RS = np.full((len(shown.rank_R) + 1, len(steps_S)), np.nan, dtype=np.float32)
    value_RS.reshape(-1)[row_N * len(steps_S) + (step_N - first)] = value_N
    value_RS = value_RS[:-1]
    return _compared(run, metric, shown, steps_S, attempt_S, value_RS, step_ms, stop)


def _compared(
    run: Run, metric: Metric, shown: Places, steps_S: Ints, attempt_S: Ints, value_RS: Floats,
    step_ms: float, stop: Stop | None,
) -> Cells:  # fmt: skip
    """Every cell against its peers, attempt by attempt: a restart may have changed the layout."""
    peers_RS, deviation_RS, spread_RS, in_step_RS = (
        np.full_like(value_RS, np.nan) for _ in range(4)
    )
    groups_R = np.arange(len(value_RS))
    for attempt in np.unique(attempt_S):  # the newest comes last
        at = shown if attempt == attempt_S[-1] else places(run, int(attempt), stop)
        rows, at_rows = np.intersect1d(shown.rank_R, at.rank_R, return_indices=True)[1:]
        columns = np.flatnonzero(attempt_S == attempt)
        pp_R, tp_R = (np.maximum(at.coords[axis][at_rows], 0) for axis in ("pp", "tp"))
        part = np.ix_(rows, columns)
        value = value_RS[part]
        peers, group_R = peers_median(value, group_ids(pp_R), group_ids(pp_R, tp_R))
        deviation = value / peers - 1 if metric.is_ratio else (value - peers) / step_ms
        peers_RS[part], deviation_RS[part] = peers, deviation
        groups_R[rows] = group_R
        spread_RS[part] = spread(deviation, group_R)
        in_step_RS[part] = spread_within_step(deviation, group_R)
    shown_RS = deviation_RS + 1 if metric.is_ratio else value_RS
    return Cells(
        metric,
        shown,
        steps_S,
        shown_RS,
        peers_RS,
        deviation_RS,
        spread_RS,
        in_step_RS,
        groups_R,
        step_ms,
    )


def last_steps(run: Run, attempt: int | None = None) -> Steps | None:
    """First and last of the newest 20 finished steps; None while none is finished."""
    text = (
        "SELECT max(step) AS last FROM step_rollup WHERE finished AND step >= 0"
        " AND ($attempt IS NULL OR attempt = $attempt)"
    )
    last = run.index_rows(text, attempt=attempt)[0]["last"]
    return None if last is None else (max(0, int(last) - LAST_STEPS + 1), int(last))


def newest_part(run: Run, attempt: int | None, most_cells: int) -> Steps | None:
    """The newest steps with about `most_cells` cells; None where the whole run has no more."""
    text = (
        "SELECT count(*) AS cells, count(DISTINCT rank) AS ranks, max(step) AS last"
        " FROM chosen_steps($attempt) WHERE finished AND step >= 0"
    )
    found = run.index_rows(text, attempt=attempt)[0]
    if found["cells"] <= 2 * most_cells:
        return None
    num_steps = max(LAST_STEPS, most_cells // found["ranks"])
    return max(0, found["last"] - num_steps + 1), found["last"]


def _attempts(run: Run, steps_S: Ints, attempt: int | None) -> Ints:
    """The attempt each step is shown of: the one asked for, else the newest that has it."""
    found_S = np.full(len(steps_S), attempt or 0)
    if attempt is None and len(steps_S):
        text = "SELECT step, attempt FROM newest_steps WHERE step BETWEEN $low AND $high"
        low = int(steps_S[0])
        for row in run.index_rows(text, low=low, high=int(steps_S[-1])):
            found_S[row["step"] - low] = row["attempt"]
    return found_S


def _job_step_ms(run: Run, attempt: int | None, steps: Steps, stop: Stop | None) -> float:
    """Median over ranks and steps of the step time; 1 where no step is finished."""
    text = (
        "SELECT median(window_ns) / 1e6 AS ms FROM chosen_steps($attempt)"
        " WHERE finished AND step BETWEEN $low AND $high AND step >= 0"
    )
    rows = run.index_rows(text, attempt=attempt, low=steps[0], high=steps[1])
    return float(rows[0]["ms"] or 1.0)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(column.to_numpy())
