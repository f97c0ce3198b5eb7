"""One metric for every rank and step of a run, with its peers and its colour, for all pictures.

Shape suffixes: R rank (a row), S step (a column); G and T: some of the rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from app.views.ranks import scales
from app.views.ranks.peers import PAST_STEPS, group_ids, peers_median, spread, spread_within_step
from app.views.ranks.rank_places import Places, places
from app.views.ranks.scales import Bytes, Floats, Ints, Metric
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

LAST_STEPS = 20
"""Steps over which a rank is judged by default, as in slowest_ranks."""

MOST_CELLS = 16_000_000
"""Of one map: 12,288 ranks x 1,300 steps, 144 MB with values, peers and colours."""

Steps = tuple[int, int]
"""first and last, both included"""
ALL_STEPS = 0, 2**63 - 2


@dataclass(frozen=True)
class Cells:
    """Values of a metric; rows are the ranks of the newest attempt shown, in order of rank."""

    metric: Metric
    places: Places
    steps_S: Ints
    """numbers of the recorded steps, ascending; profiles may be from steps 5 and 1,000,000"""
    value_RS: Floats
    """in the metric's unit; NaN not recorded"""
    peers_RS: Floats
    """median of the peers, in ms (also for slowdown)"""
    step_ms: float
    """median step time of the job"""
    attempt_S: Ints
    """the attempt from which each step is shown"""
    groups: dict[int, Ints]
    """by attempt: ranks (R) with the same number are peers; -1: not in this attempt"""
    compared_from: int | None = None
    """first step with a slowdown, if steps before it have values and nothing to compare them with:
    few ranks are compared with their own steps before; None: there are no such steps"""

    def deviation(self, part: Any = np.s_[:, :]) -> Floats:
        """How far cells are from their peers: slowdown - 1, or a share of the job's step time."""
        if self.metric.is_ratio:
            return self.value_RS[part] - np.float32(1)
        return (self.value_RS[part] - self.peers_RS[part]) / np.float32(self.step_ms)

    def parts(self) -> Iterator[tuple[Any, Ints]]:
        """Index of the rows and steps of each attempt, oldest first, and the groups of the rows."""
        for attempt in np.unique(self.attempt_S):
            group_R, columns = self.groups[int(attempt)], np.flatnonzero(self.attempt_S == attempt)
            rows = np.flatnonzero(group_R >= 0)
            yield np.ix_(rows, columns), group_R[rows]

    def spreads(self, deviation_GT: Floats, group_G: Ints) -> tuple[Floats, Floats]:
        """MAD of the peers' deviations over 20 steps, and within each step."""
        return spread(deviation_GT, group_G), spread_within_step(deviation_GT, group_G)

    @cached_property
    def _judged(self) -> tuple[Bytes, float]:
        factor = scales.noise_factor(self.value_RS.size)
        code_RS = np.zeros(self.value_RS.shape, dtype=np.uint8)
        typical = float("nan")
        for part, group_G in self.parts():
            deviation = self.deviation(part)
            over_steps, in_step = self.spreads(deviation, group_G)
            noise = factor * np.fmax(over_steps, in_step)
            code_RS[part] = scales.codes(deviation, noise, self.metric.full)
            known = over_steps[:, -1][~np.isnan(over_steps[:, -1])]
            typical = factor * float(np.median(known)) if known.size else typical
        return code_RS, typical

    @property
    def code_RS(self) -> Bytes:
        """Colour of every single cell."""
        return self._judged[0]

    @property
    def legend(self) -> dict[str, Any]:
        """The legend for the browser: see scales.legend."""
        return scales.legend(self.metric, self.step_ms, self._judged[1])

    @property
    def has_values(self) -> bool:
        """Whether any value was recorded."""
        return bool(self.value_RS.size) and not bool(np.isnan(self.value_RS).all())

    @property
    def nbytes(self) -> int:
        """Memory of values, peers and colours (computed on first use)."""
        return self.value_RS.nbytes + self.peers_RS.nbytes + self.value_RS.size

    def columns(self, steps: Steps) -> slice:
        """Columns of the steps first..last; an empty slice if there are none."""
        low, high = np.searchsorted(self.steps_S, (steps[0], steps[1] + 1))
        return slice(int(low), int(high))

    def window(self, steps: Steps) -> Cells:
        """The same cells in some steps only."""
        columns = self.columns(steps)
        return replace(
            self,
            steps_S=self.steps_S[columns],
            value_RS=self.value_RS[:, columns],
            peers_RS=self.peers_RS[:, columns],
            attempt_S=self.attempt_S[columns],
        )


def cells(
    run: Run,
    metric: Metric,
    attempt: int | None = None,
    steps: Steps | None = None,
    stop: Stop | None = None,
    step_ms: float | None = None,
) -> Cells:
    """Cells of a metric over the finished steps first..last (default: all); raises UserError if
    there are more than MOST_CELLS.

    `step_ms`: job_step_ms if it is known already.
    """
    low, high = steps or ALL_STEPS
    num_ranks, num_steps = _extent(run, attempt, (low, high))
    if num_ranks * num_steps > MOST_CELLS:
        raise UserError(
            f"{num_ranks:,} ranks x {num_steps:,} steps are too many to compare at once; choose"
            f" {MOST_CELLS // num_ranks:,} steps or fewer"
        )
    table = run.ask(
        "rank_cells",
        metric=metric.asks,
        step_min=max(0, low - PAST_STEPS),
        step_max=high,
        attempt=attempt,
        stop=stop,
    )
    rank_N, step_N, value_N = (
        np.asarray(table.column(name).to_numpy()) for name in ("rank", "step", "value_ms")
    )
    steps_S = np.unique(step_N).astype(np.int64)
    attempt_S = _attempts(run, steps_S, attempt)
    shown = places(run, int(attempt_S[-1]) if len(attempt_S) else attempt, stop)
    column_N = np.searchsorted(steps_S, step_N)
    value_RS = _matrix(shown.rank_R, rank_N, column_N, value_N, len(steps_S))
    peers_RS, groups = _peers(run, shown, value_RS, attempt_S, stop)
    compared_from = None
    if metric.is_ratio:
        compared_from = _compared_from(steps_S, value_RS, peers_RS)
        value_RS = value_RS / peers_RS
    step_ms = job_step_ms(run, attempt) if step_ms is None else step_ms
    matrix = Cells(
        metric, shown, steps_S, value_RS, peers_RS, step_ms, attempt_S, groups, compared_from
    )
    return matrix if steps is None else matrix.window(steps)


def _compared_from(steps_S: Ints, value_RS: Floats, peers_RS: Floats) -> int | None:
    """See Cells.compared_from."""
    is_known_S = np.isfinite(value_RS).any(axis=0)
    is_compared_S = np.isfinite(peers_RS).any(axis=0)
    if not is_compared_S.any():
        return None
    first = int(np.argmax(is_compared_S))
    return int(steps_S[first]) if is_known_S[:first].any() else None


def _matrix(rank_R: Ints, rank_N: Ints, column_N: Ints, value_N: Floats, num_steps: int) -> Floats:
    """Values of a table as matrix of ranks (ascending) and steps; NaN where there is none."""
    row_N = np.searchsorted(rank_R, rank_N)
    # one extra row for values of ranks that exist only in an older attempt
    row_N[np.append(rank_R, -1)[row_N] != rank_N] = len(rank_R)
    value_RS = np.full((len(rank_R) + 1, num_steps), np.nan, dtype=np.float32)
    value_RS[row_N, column_N] = value_N
    return value_RS[:-1]


def _peers(
    run: Run, shown: Places, value_RS: Floats, attempt_S: Ints, stop: Stop | None
) -> tuple[Floats, dict[int, Ints]]:
    """Median of every cell's peers, attempt by attempt: a restart may have changed the layout."""
    peers_RS = np.full_like(value_RS, np.nan)
    groups = {}
    for attempt in np.unique(attempt_S):
        ranks = shown if attempt == attempt_S[-1] else places(run, int(attempt), stop)
        rows, rank_rows = np.intersect1d(shown.rank_R, ranks.rank_R, return_indices=True)[1:]
        part = np.ix_(rows, np.flatnonzero(attempt_S == attempt))
        pp_R, tp_R = (np.maximum(ranks.coords[axis][rank_rows], 0) for axis in ("pp", "tp"))
        median, group_G = peers_median(value_RS[part], group_ids(pp_R), group_ids(pp_R, tp_R))
        peers_RS[part] = median
        groups[int(attempt)] = np.full(len(value_RS), -1)
        groups[int(attempt)][rows] = group_G
    return peers_RS, groups


def last_steps(run: Run, attempt: int | None = None) -> Steps | None:
    """First and last finished step among the newest 20; None if none is finished."""
    text = (
        "SELECT min(step) AS first, max(step) AS last FROM step_rollup WHERE finished"
        " AND step >= $least AND ($attempt IS NULL OR attempt = $attempt)"
    )
    last = run.index_rows(text, attempt=attempt, least=0)[0]["last"]
    if last is None:
        return None
    least = max(0, int(last) - LAST_STEPS + 1)  # a profile may begin at step 10
    return int(run.index_rows(text, attempt=attempt, least=least)[0]["first"]), int(last)


def newest_part(run: Run, attempt: int | None, most_cells: int) -> Steps | None:
    """The newest steps with about `most_cells` cells; None if the whole run has no more."""
    num_ranks, num_steps = _extent(run, attempt, ALL_STEPS)
    if num_ranks * num_steps <= 2 * most_cells:
        return None
    return _newest(run, attempt, ALL_STEPS, max(LAST_STEPS, most_cells // num_ranks))


def fitting_part(run: Run, attempt: int | None, steps: Steps | None = None) -> Steps | None:
    """The newest of the steps (default: all) that fit into one map; None if all of them fit."""
    within = steps or ALL_STEPS
    num_ranks, num_steps = _extent(run, attempt, within)
    if num_ranks * num_steps <= MOST_CELLS:
        return None
    return _newest(run, attempt, within, max(1, MOST_CELLS // num_ranks))


def _extent(run: Run, attempt: int | None, steps: Steps) -> tuple[int, int]:
    """Number of ranks and of finished steps in first..last."""
    text = (
        "SELECT count(DISTINCT rank) AS ranks, count(DISTINCT step) AS steps"
        " FROM chosen_steps($attempt)"
        " WHERE finished AND step >= 0 AND step BETWEEN $low AND $high"
    )
    [row] = run.index_rows(text, attempt=attempt, low=steps[0], high=steps[1])
    return row["ranks"], row["steps"]


def _newest(run: Run, attempt: int | None, steps: Steps, most_steps: int) -> Steps:
    """First and last of the newest finished steps within first..last; there must be some."""
    text = (
        "SELECT min(step) AS first, max(step) AS last FROM (SELECT DISTINCT step"
        " FROM chosen_steps($attempt) WHERE finished AND step >= 0 AND step BETWEEN $low AND $high"
        " ORDER BY step DESC LIMIT $most)"
    )
    low, high = steps
    [row] = run.index_rows(text, attempt=attempt, low=low, high=high, most=most_steps)
    return row["first"], row["last"]


def job_step_ms(run: Run, attempt: int | None) -> float:
    """Median step time over all ranks and finished steps; 1 if no step is finished.

    Of the whole run, so that a metric has the same scale everywhere.
    """
    text = (
        "SELECT median(window_ns) / 1e6 AS ms FROM chosen_steps($attempt)"
        " WHERE finished AND step >= 0"
    )
    rows = run.index_rows(text, attempt=attempt)
    return float(rows[0]["ms"] or 1.0)


def _attempts(run: Run, steps_S: Ints, attempt: int | None) -> Ints:
    """The attempt from which each step is shown: the requested one, else the newest that has it."""
    attempt_S = np.full(len(steps_S), attempt or 0)
    if attempt is None and len(steps_S):
        text = "SELECT step, attempt FROM newest_steps WHERE step BETWEEN $low AND $high"
        rows = run.index_rows(text, low=int(steps_S[0]), high=int(steps_S[-1]))
        newest = {row["step"]: row["attempt"] for row in rows}
        attempt_S[:] = [newest.get(step, 0) for step in steps_S.tolist()]
    return attempt_S
