"""What goes into a shared file: the finding, figures, heat map, timeline and ranks of a view."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from app.arrays import pack_arrays
from app.components.banner import Headline, chosen, headline, missing, show_me
from app.components.outstanding import open_fronts
from app.findings import diagnosis_of
from app.hub import Hub
from app.kpis import kpis_of
from app.links import View, explain
from app.views import heat_map as heat_maps
from app.views.cells import cells, last_steps, newest_part
from app.views.grid import grid
from app.views.kpis import Kpi
from app.views.lanes import Place, choose, known
from app.views.rank_table import RankRow, rank_rows
from app.views.recorded import Front, recorded
from app.views.scales import metric_of
from app.views.timeline import tile
from app.views.timeline_view import attempt_for, tile_meta, window_for
from app.views.timeline_window import extent
from diagnosis.findings import Finding
from ingest.errors import UserError
from ingest.sandbox import Stop
from ingest.store import Run

MOST_LANES = 24
_MOST_CELLS = 500_000
T = TypeVar("T")


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
    """Everything a shared file says. Arrays are packed by app.arrays."""

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
    assert view.run is not None
    run = hub.run(view.run)
    notes = explain(view, run)
    if notes:
        view = _possible(view, run)
    attempt = attempt_for(run, view)
    diagnosis = diagnosis_of(hub, view.run, view.attempt)
    finding = chosen(diagnosis, view.finding)
    if (gone := missing(diagnosis, view.finding)) is not None:
        notes.append(gone)
    target = _target(view, finding)
    if target.t is not None and target.t[0] == target.t[1]:
        target = target.to(t=None)

    def tried(make: Callable[[], T], otherwise: T) -> T:
        try:
            return make()
        except UserError as error:
            if stop is not None and stop.called:
                raise
            notes.append(f"{str(error)[0].upper()}{str(error)[1:]}.")
            return otherwise

    at = tried(lambda: _places(run, attempt), {})
    lanes = tried(lambda: _lanes(at, target), [])
    name = view.run

    def kept(key: tuple[object, ...], make: Callable[[], T]) -> T:
        """A coarser level of detail, and the next who shares, need not ask again."""
        return hub.cached(name, key, lambda _run: make())

    begins = finding.first_step if finding else None
    heat_key = ("shared heat", metric_of(view.metric).name, view.attempt, detail.heat, begins)
    heat, heat_note = tried(
        lambda: kept(heat_key, lambda: _heat(run, view, detail, begins, stop)), (None, None)
    )
    steps = view.steps or last_steps(run, view.attempt)
    row_key = ("shared rows", view.attempt, steps)
    rows = tried(lambda: list(kept(row_key, lambda: _rows(run, view.attempt, steps, stop))), [])
    named = [place.rank for place in finding.culprits] if finding else []
    rows.sort(key=lambda row: (row.rank not in named, -(row.slowdown or 0.0), row.rank))
    layout = run.layout(attempt)
    return Shared(
        run=view.run,
        attempt=attempt,
        state=run.state,
        layout=" x ".join(f"{axis} {size}" for axis, size in layout.axes) if layout else "",
        made_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        finding=finding,
        headline=headline(diagnosis),
        kpis=tried(lambda: kpis_of(hub, view, stop), ()),
        metric=metric_of(view.metric).title,
        heat=heat,
        tile=tried(lambda: _tile(run, attempt, at, lanes, target, detail, stop), None),
        shown_ranks=tuple(lanes),
        rank=target.rank,
        steps=target.steps,
        rows=tuple(rows[: detail.rows]),
        row_steps=steps,
        num_ranks=len(at),
        live_url=f"{public_url.rstrip('/')}{view.url()}" if public_url else None,
        notes=(*notes, heat_note) if heat_note else tuple(notes),
        fronts=tried(lambda: _fronts(run, attempt, steps, stop), ()),
    )


def _fronts(
    run: Run, attempt: int, steps: tuple[int, int] | None, stop: Stop | None
) -> tuple[Front, ...]:
    if run.state != "finished" or steps is not None:
        return ()
    return tuple(open_fronts(recorded(run, attempt, stop)))


def _possible(view: View, run: Run) -> View:
    """What is left of a view that names what is not there; the notes say so."""
    attempt = view.attempt if view.attempt in run.attempts else None
    wanted = run.newest_attempt if attempt is None else attempt
    there = {info["rank"] for info in run.ranks if info["attempt"] == wanted}
    return view.to(
        attempt=attempt, rank=view.rank if view.rank in there else None, steps=None, t=None,
        ranks=tuple(rank for rank in view.ranks if rank in there),
    )  # fmt: skip


def _target(view: View, finding: Finding | None) -> View:
    """What the timeline shows: the view's own lanes and window, else the finding's."""
    if finding is None or view.ranks or view.t or view.steps or view.rank is not None:
        return view
    return show_me(finding, view)


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


def _tile(
    run: Run, attempt: int, at: dict[int, Place], ranks: list[int], view: View, detail: Detail,
    stop: Stop | None,
) -> bytes | None:  # fmt: skip
    """The same binary answer the timeline's route gives."""
    have = extent(run, attempt, ranks, stop) if ranks else None
    if have is None:
        return None
    window = window_for(run, attempt, ranks, view, have, stop)
    lanes = [at[rank] for rank in ranks]
    made = tile(run, attempt, lanes, window, detail.timeline_px, have, stop)
    kept = replace(have, begin_ns=window.begin_ns, end_ns=window.end_ns)  # the file has no more
    meta = tile_meta(run, attempt, lanes, window, kept)
    told = {"ranks": ranks, "unknown": [], "state": "finished", "num_ranks": len(at)}
    return pack_arrays(made.arrays, made.meta | meta | told)
