"""A view as plain data for one file: finding, figures, heat map, timeline and table of ranks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from app.analysis.headline import Headline
from app.analysis.kpis import kpis_of
from app.analysis.stuck_page import can_be_stuck, stuck_page
from app.analysis.timelines import Timelines
from app.components.outstanding import open_fronts
from app.runs.hub import Hub
from app.share.collected_pages import page_answers
from app.share.shown_view import ShownView
from app.view_state import View
from app.views.ranks import heat_map as heat_maps
from app.views.ranks.empty_reason import empty_reason
from app.views.ranks.grid import grid
from app.views.ranks.metric_matrix import cells, newest_part
from app.views.ranks.rank_table import RankRow, rank_rows
from app.views.ranks.scales import metric_of
from app.views.run.kpi import Kpi
from app.views.run.without_steps import Front, recorded
from app.views.timeline.lanes import Place, choose, known
from app.views.timeline.query import LaneQuery
from app.views.timeline.tile import Tiles
from app.views.timeline.tile_arrays import tile_meta
from app.views.timeline.window import extent, window_for
from app.web.arrays import pack_arrays
from diagnosis.findings import Finding
from diagnosis.statistics.units import steps_text
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

MOST_LANES = 24
_MOST_CELLS = 500_000
_MOST_LINES, _LONGEST_LINE = 60, 6_000
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
class CollectedView:
    """Everything a shared file shows. Arrays are packed by app.web.arrays."""

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
    page: str
    rank: int | None
    expert: tuple[int, ...] | None
    pipeline: dict[str, str]
    """changes of the job, for the page What-if"""
    steps: tuple[int, int] | None
    """of the timeline"""
    chosen_steps: tuple[int, int] | None
    """by the view; None where the finding or the page chose them"""
    rows: tuple[RankRow, ...]
    row_steps: tuple[int, int] | None
    num_ranks: int
    live_url: str | None
    notes: tuple[str, ...] = field(default=())
    fronts: tuple[Front, ...] = field(default=())
    """where each group of a finished run without steps stands"""
    answers: dict[str, Any] = field(default_factory=dict)
    """of routes, for pages that have some (app.share.collected_pages); bytes are packed arrays"""
    stuck: dict[str, Any] | None = None
    """of a job that is stuck or has failed, or where the view is the page Stuck"""


def collect(
    hub: Hub, shown: ShownView, detail: Detail, public_url: str = "", stop: Stop | None = None
) -> CollectedView:
    """What a view shows, at a level of detail; `notes` name what could not be read, and why."""
    run, attempt = shown.run, shown.attempt
    reading = _Reading(list(shown.notes), stop)
    layout = run.layout(attempt)
    places: dict[int, Place] = reading.tried(
        lambda: Timelines(hub).places(shown.run_name, attempt), {}
    )
    lanes: list[int] = reading.tried(lambda: _lanes(places, shown.timeline), [])
    heat, heat_note = reading.tried(lambda: _heat(hub, shown, detail, stop), (None, None))
    if heat_note:
        reading.notes.append(heat_note)
    return CollectedView(
        run=shown.run_name,
        attempt=attempt,
        state=run.state,
        layout=str(layout) if layout else "",
        made_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        finding=shown.finding,
        headline=shown.headline,
        metric=metric_of(shown.metric).title,
        heat=heat,
        shown_ranks=tuple(lanes),
        page=shown.view.page,
        rank=shown.timeline.rank,
        expert=shown.view.expert,
        pipeline=dict(shown.view.pipeline),
        steps=shown.timeline.steps,
        chosen_steps=shown.view.steps,
        rows=tuple(reading.tried(lambda: _rank_rows(hub, shown, stop), ())[: detail.rows]),
        row_steps=shown.steps,
        num_ranks=len(places),
        live_url=f"{public_url.rstrip('/')}{shown.view.url()}" if public_url else None,
        kpis=reading.tried(lambda: kpis_of(hub, shown.view, stop), ()),
        tile=reading.tried(lambda: _tile(hub, shown, lanes, detail, stop), None),
        fronts=reading.tried(lambda: _fronts(shown, stop), ()),
        answers=reading.tried(lambda: page_answers(hub, shown, detail.rows, stop), {}),
        stuck=reading.tried(lambda: _stuck(hub, shown, stop), None),
        notes=tuple(reading.notes),
    )


@dataclass(frozen=True)
class _Reading:
    """Reads the parts of a file; a part that cannot be read becomes a note."""

    notes: list[str]
    stop: Stop | None

    def tried(self, read: Callable[[], T], otherwise: U) -> T | U:
        """The part; where it cannot be read, `otherwise` and a note."""
        try:
            return read()
        except UserError as error:
            if self.stop is not None and self.stop.called:
                raise
            self.notes.append(f"{str(error)[0].upper()}{str(error)[1:]}.")
            return otherwise


def _heat(
    hub: Hub, shown: ShownView, detail: Detail, stop: Stop | None
) -> tuple[bytes | None, str | None]:
    """The heat map, packed, and a note; those of all levels of detail are read at once."""
    onset = shown.finding.first_step if shown.finding else None
    view = shown.view.to(metric=metric_of(shown.metric).name)
    key = ("shared heat", view.metric, view.attempt, onset)
    packed, note = hub.cache.get(
        shown.run_name, key, lambda run, stop: _heats(run, view, onset, stop), stop=stop
    )
    return packed.get(detail.heat), note


def _rank_rows(hub: Hub, shown: ShownView, stop: Stop | None) -> list[RankRow]:
    """Ranks that the finding names first, then the slowest."""
    attempt, steps = shown.view.attempt, shown.steps
    rows = hub.cache.get(
        shown.run_name,
        ("shared rows", attempt, steps),
        lambda run, stop: _rows(run, attempt, steps, stop),
        stop=stop,
    )
    named = [place.rank for place in shown.finding.culprits] if shown.finding else []
    return sorted(rows, key=lambda row: (row.rank not in named, -(row.slowdown or 0.0), row.rank))


def _fronts(shown: ShownView, stop: Stop | None) -> tuple[Front, ...]:
    if shown.run.state != "finished" or shown.steps is not None:
        return ()
    return tuple(open_fronts(recorded(shown.run, shown.attempt, stop)))


def _stuck(hub: Hub, shown: ShownView, stop: Stop | None) -> dict[str, Any] | None:
    """The page Stuck, where there is something on it; of long lines the end."""
    found = stuck_page(hub, shown.run_name, shown.view.attempt, stop)
    is_asked_for = shown.view.page == "stuck" and can_be_stuck(hub, shown.run_name)
    if found["state"] != "stuck" and not found["findings"] and not is_asked_for:
        return None
    lines = [
        line | {"text": line["text"][-_LONGEST_LINE:]} for line in found["lines"][:_MOST_LINES]
    ]
    return found | {"lines": lines}


def _lanes(places: dict[int, Place], view: View) -> list[int]:
    if not places:
        return []
    ranks = known(places, view.ranks) if view.ranks else choose(places, "default", view.rank)
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


def _heats(
    run: Run, view: View, onset: int | None, stop: Stop | None
) -> tuple[dict[tuple[int, int], bytes], str | None]:
    """By size: all steps of a small run; of a large one those around the finding's first step."""
    part = newest_part(run, view.attempt, _MOST_CELLS)
    if part is not None and onset is not None and onset < part[0]:
        count = part[1] - part[0] + 1
        first = max(0, onset - count // 4)
        part = first, first + count - 1
    matrix = cells(run, metric_of(view.metric), view.attempt, part, stop)
    if not len(matrix.steps_S):
        return {}, None
    meta: dict[str, Any] = {"legend": matrix.legend}
    if not matrix.code_RS.any():
        reason = empty_reason(run, matrix.metric, view.attempt, part, matrix.has_values)
        meta |= {"nothing": reason}
    packed = {}
    for detail in DETAILS:
        drawn = heat_maps.heat_map(matrix, "rank", None, None, *detail.heat)
        packed[detail.heat] = pack_arrays(drawn.arrays(), {**drawn.meta(), **meta})
    return packed, f"The heat map shows {steps_text(*part)}." if part else None


def _tile(
    hub: Hub, shown: ShownView, ranks: list[int], detail: Detail, stop: Stop | None
) -> bytes | None:
    """The same binary answer the timeline's route gives; those of all levels are read at once."""
    if not ranks:
        return None
    view = shown.timeline
    key = ("shared timeline", shown.attempt, tuple(ranks), view.steps, view.t)
    packed = hub.cache.get(
        shown.run_name, key, lambda run, stop: _tiles(hub, run, shown, ranks, stop), stop=stop
    )
    return packed.get(detail.timeline_px)


def _tiles(
    hub: Hub, run: Run, shown: ShownView, ranks: list[int], stop: Stop | None
) -> dict[int, bytes]:
    """By width in pixels; empty where these ranks have recorded nothing."""
    attempt = shown.attempt
    have = extent(run, attempt, ranks, stop)
    if have is None:
        return {}
    places = Timelines(hub).places(shown.run_name, attempt)
    lanes = [places[rank] for rank in ranks]
    window = window_for(run, attempt, ranks, shown.timeline, have, stop)
    tiles = Tiles(LaneQuery(run, attempt, lanes, window, have, stop))
    kept = replace(have, begin_ns=window.begin_ns, end_ns=window.end_ns)  # the file has no more
    meta = tile_meta(run, attempt, lanes, window, kept)
    meta |= {"ranks": ranks, "unknown": [], "state": "finished", "num_ranks": len(places)}
    packed = {}
    for detail in DETAILS:
        made = tiles.tile(detail.timeline_px)
        packed[detail.timeline_px] = pack_arrays(made.arrays, made.meta | meta)
    return packed
