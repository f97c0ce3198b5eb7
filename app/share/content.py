"""What goes into a shared file: the finding, figures, heat map, timeline and ranks of a view."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from app.analysis.diagnosis import diagnosis_of
from app.analysis.finding_links import chosen_finding, finding_view, stale_link_note
from app.analysis.headline import Headline, headline
from app.analysis.kpis import kpis_of
from app.components.outstanding import open_fronts
from app.runs.hub import Hub
from app.view_state import View, explain
from app.views.ranks import heat_map as heat_maps
from app.views.ranks.grid import grid
from app.views.ranks.metric_matrix import cells, last_steps, newest_part
from app.views.ranks.rank_table import RankRow, rank_rows
from app.views.ranks.scales import metric_of
from app.views.run.kpis import Kpi
from app.views.run.without_steps import Front, recorded
from app.views.timeline.lanes import Place, choose, known
from app.views.timeline.meta import attempt_for, tile_meta, window_for
from app.views.timeline.tile import tile
from app.views.timeline.window import extent
from app.web.arrays import pack_arrays
from diagnosis.findings import Finding
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

MOST_LANES = 24
_MOST_CELLS = 500_000
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Detail:
    """How much is drawn: pixels of the timeline, drawn rows and columns of the map, table rows."""

    timeline_px: int
    heat: tuple[int, int]
    rows: int


DETAILS = (
    Detail(8000, (400, 1000), 256),
    Detail(3000, (256, 500), 256),
    Detail(1200, (128, 300), 128),
    Detail(400, (64, 150), 64),
    Detail(120, (32, 60), 32),
)
"""Finest first; a coarser one is taken where the file would be too big."""


@dataclass(frozen=True)
class Shared:
    """Everything a shared file says. Arrays are packed by app.web.arrays."""

    run: str
    attempt: int
    state: str
    layout: str
    made_at: str
    """UTC"""
    finding: Finding | None
    headline: Headline
    """what the diagnosis says where there is no finding"""
    kpis: tuple[Kpi, ...]
    metric: str
    heat: bytes | None
    tile: bytes | None
    shown_ranks: tuple[int, ...]
    rank: int | None
    steps: tuple[int, int] | None
    rows: tuple[RankRow, ...]
    row_steps: tuple[int, int] | None
    num_ranks: int
    live_url: str | None
    notes: tuple[str, ...] = field(default=())
    fronts: tuple[Front, ...] = field(default=())
    """where each group of a finished run without steps stands"""


def collect(
    hub: Hub, view: View, detail: Detail, public_url: str = "", stop: Stop | None = None
) -> Shared:
    """What a view shows, at a level of detail; raises UserError for an unknown run.

    What cannot be shown (no such step, no such rank) is left out and said in `notes`.
    """
    asked = _asked(hub, view, stop)
    run, view, attempt = asked.run, asked.view, asked.attempt
    layout = run.layout(attempt)
    at: dict[int, Place] = asked.tried(lambda: _places(run, attempt), {})
    lanes: list[int] = asked.tried(lambda: _lanes(at, asked.target), [])
    heat, heat_note = asked.tried(lambda: _kept_heat(hub, asked, detail), (None, None))
    return Shared(
        run=asked.name,
        attempt=attempt,
        state=run.state,
        layout=" x ".join(f"{axis} {size}" for axis, size in layout.axes) if layout else "",
        made_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        finding=asked.finding,
        headline=asked.headline,
        metric=metric_of(view.metric).title,
        heat=heat,
        shown_ranks=tuple(lanes),
        rank=asked.target.rank,
        steps=asked.target.steps,
        rows=tuple(asked.tried(lambda: _kept_rows(hub, asked), ())[: detail.rows]),
        row_steps=asked.steps,
        num_ranks=len(at),
        live_url=f"{public_url.rstrip('/')}{view.url()}" if public_url else None,
        kpis=asked.tried(lambda: kpis_of(hub, view, stop), ()),
        tile=asked.tried(lambda: _tile(asked, at, lanes, detail), None),
        fronts=asked.tried(lambda: _fronts(asked), ()),
        notes=(*asked.notes, heat_note) if heat_note else tuple(asked.notes),
    )


@dataclass(frozen=True)
class _Asked:
    """What a view asks of a run, as far as the run has it."""

    name: str
    run: Run
    view: View
    attempt: int
    headline: Headline
    finding: Finding | None
    target: View
    """what the timeline shows"""
    steps: tuple[int, int] | None
    """which the table of ranks sums up"""
    notes: list[str]
    """what cannot be shown, and why; grows while it is looked for"""
    stop: Stop | None

    def tried(self, make: Callable[[], T], otherwise: U) -> T | U:
        """What is made; where it cannot be, `otherwise` and a note."""
        try:
            return make()
        except UserError as error:
            if self.stop is not None and self.stop.called:
                raise
            self.notes.append(f"{str(error)[0].upper()}{str(error)[1:]}.")
            return otherwise


def _asked(hub: Hub, view: View, stop: Stop | None) -> _Asked:
    name = view.run
    assert name is not None
    run = hub.run(name)
    notes = explain(view, run)
    if notes:
        view = _possible(view, run)
    diagnosis = diagnosis_of(hub, name, view.attempt)
    finding = chosen_finding(diagnosis, view.finding)
    if (gone := stale_link_note(diagnosis, view.finding)) is not None:
        notes.append(gone)
    target = _target(view, finding)
    if target.t is not None and target.t[0] == target.t[1]:
        target = target.to(t=None)
    return _Asked(
        name=name,
        run=run,
        view=view,
        attempt=attempt_for(run, view),
        headline=headline(diagnosis),
        finding=finding,
        target=target,
        steps=view.steps or last_steps(run, view.attempt),
        notes=notes,
        stop=stop,
    )


def _kept_heat(hub: Hub, asked: _Asked, detail: Detail) -> tuple[bytes | None, str | None]:
    """A coarser level of detail, and the next who shares, need not ask again."""
    begins = asked.finding.first_step if asked.finding else None
    metric = metric_of(asked.view.metric).name
    key = ("shared heat", metric, asked.view.attempt, detail.heat, begins)
    return hub.cached(
        asked.name, key, lambda run: _heat(run, asked.view, detail, begins, asked.stop)
    )


def _kept_rows(hub: Hub, asked: _Asked) -> list[RankRow]:
    """Those the finding names first, then the slowest."""
    attempt, steps = asked.view.attempt, asked.steps
    found = hub.cached(
        asked.name,
        ("shared rows", attempt, steps),
        lambda run: _rows(run, attempt, steps, asked.stop),
    )
    named = [place.rank for place in asked.finding.culprits] if asked.finding else []
    return sorted(found, key=lambda row: (row.rank not in named, -(row.slowdown or 0.0), row.rank))


def _fronts(asked: _Asked) -> tuple[Front, ...]:
    if asked.run.state != "finished" or asked.steps is not None:
        return ()
    return tuple(open_fronts(recorded(asked.run, asked.attempt, asked.stop)))


def _possible(view: View, run: Run) -> View:
    """What is left of a view that names what is not there; the notes say so."""
    attempt = view.attempt if view.attempt in run.attempts else None
    wanted = run.newest_attempt if attempt is None else attempt
    there = {info["rank"] for info in run.ranks if info["attempt"] == wanted}
    return view.to(
        attempt=attempt,
        rank=view.rank if view.rank in there else None,
        steps=None,
        t=None,
        ranks=tuple(rank for rank in view.ranks if rank in there),
    )


def _target(view: View, finding: Finding | None) -> View:
    """What the timeline shows: the view's own lanes and window, else the finding's."""
    if finding is None or view.ranks or view.t or view.steps or view.rank is not None:
        return view
    return finding_view(finding, view)


def _places(run: Run, attempt: int) -> dict[int, Place]:
    rows = run.ask("clock_shifts", attempt=attempt).to_pylist()
    return {row["rank"]: Place(**row) for row in rows}


def _lanes(at: dict[int, Place], view: View) -> list[int]:
    if not at:
        return []
    ranks = known(at, view.ranks) if view.ranks else choose(at, "default", view.rank)
    if view.rank in ranks[MOST_LANES:]:  # the selected one is never cut off
        ranks = [*ranks[: MOST_LANES - 1], view.rank]
    return ranks[:MOST_LANES]


def _rows(
    run: Run, attempt: int | None, steps: tuple[int, int] | None, stop: Stop | None
) -> list[RankRow]:
    if steps is None:
        return []
    slowdowns = grid(cells(run, metric_of("slowdown"), attempt, steps, stop))
    return rank_rows(run, attempt, steps, slowdowns, stop)


def _heat(
    run: Run, view: View, detail: Detail, begins: int | None, stop: Stop | None
) -> tuple[bytes | None, str | None]:
    """All steps of a small run; of a large one those around the begin of the finding."""
    part = newest_part(run, view.attempt, _MOST_CELLS)
    if part is not None and begins is not None and begins < part[0]:
        count = part[1] - part[0] + 1
        first = max(0, begins - count // 4)
        part = first, first + count - 1
    found = cells(run, metric_of(view.metric), view.attempt, part, stop)
    if not len(found.steps_S):
        return None, None
    drawn = heat_maps.heat_map(found, "rank", None, None, *detail.heat)
    packed = pack_arrays(drawn.arrays(), {**drawn.meta(), "legend": found.legend})
    note = f"The heat map shows steps {part[0]} to {part[1]}." if part else None
    return packed, note


def _tile(asked: _Asked, at: dict[int, Place], ranks: list[int], detail: Detail) -> bytes | None:
    """The same binary answer the timeline's route gives."""
    run, attempt, stop = asked.run, asked.attempt, asked.stop
    have = extent(run, attempt, ranks, stop) if ranks else None
    if have is None:
        return None
    window = window_for(run, attempt, ranks, asked.target, have, stop)
    lanes = [at[rank] for rank in ranks]
    made = tile(run, attempt, lanes, window, detail.timeline_px, have, stop)
    kept = replace(have, begin_ns=window.begin_ns, end_ns=window.end_ns)  # the file has no more
    meta = tile_meta(run, attempt, lanes, window, kept)
    told = {"ranks": ranks, "unknown": [], "state": "finished", "num_ranks": len(at)}
    return pack_arrays(made.arrays, made.meta | meta | told)
