"""Timelines of runs, cached: which lanes a view shows, how far there is data, and the tile of them.

A tile is read in this order: app.routes.timeline (the request), here (attempt, lanes, extent),
app.views.timeline.window (what part of time), .tile (what is drawn), .query (what the run is
asked), .waits and .lod (pure), .tile_arrays (what the browser gets).
"""

from __future__ import annotations

from dataclasses import dataclass

from app.runs.hub import Hub
from app.view_state import View
from app.views.timeline.lanes import MOST_AT_ONCE, Place, choose, known
from app.views.timeline.query import places_of
from app.views.timeline.tile import tile
from app.views.timeline.tile_arrays import Tile, tile_meta
from app.views.timeline.window import Extent, Window, attempt_for, extent, window_for
from diagnosis.statistics.units import named_ranks
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop


class NothingYet(UserError):
    """Lanes without data, such as those of a job that has just begun: no mistake of the user."""


@dataclass(frozen=True)
class Selection:
    """What a view shows: an attempt of a run, ranks in drawing order, the extent of their data."""

    run: Run
    attempt: int
    places: dict[int, Place]
    """of all ranks of the attempt"""
    ranks: list[int]
    extent: Extent
    view: View

    @property
    def lanes(self) -> list[Place]:
        """The lanes of one answer."""
        return [self.places[rank] for rank in self.ranks[:MOST_AT_ONCE]]

    def window(self, stop: Stop | None = None) -> Window:
        """The part of time that the view shows; raises UserError."""
        return window_for(self.run, self.attempt, self.ranks, self.view, self.extent, stop)


@dataclass(frozen=True)
class Timelines:
    """Timelines of the runs of a hub; all of it may raise UserError and Interrupted."""

    hub: Hub

    def tile(self, name: str, view: View, width_px: int, stop: Stop | None = None) -> Tile:
        """What a view shows, for a canvas of `width_px` pixels."""
        try:
            shown = self.selection(name, view)
        except NothingYet as nothing:
            return Tile({}, {"nothing": str(nothing)})
        window, picture = self._picture(name, shown, width_px, stop)
        meta = tile_meta(shown.run, shown.attempt, shown.lanes, window, shown.extent) | {
            "ranks": shown.ranks,
            "unknown": [rank for rank in view.ranks if rank not in shown.places],
            "state": self._state(name),
            "num_ranks": len(shown.places),
        }
        return Tile(picture.arrays, picture.meta | meta)

    def selection(self, name: str, view: View) -> Selection:
        """What a view shows; raises NothingYet."""
        attempt = self.attempt(name, view)
        places = self.places(name, attempt)
        ranks = known(places, view.ranks) if view.ranks else choose(places, "default", view.rank)
        extent = self._extent(name, attempt, ranks)
        if extent is None:
            raise NothingYet(self._nothing(name, attempt, ranks))
        return Selection(self.hub.run(name), attempt, places, ranks, extent, view)

    def attempt(self, name: str, view: View) -> int:
        """The attempt that a view shows."""
        key = ("timeline attempt", view.attempt, view.steps)
        return self.hub.cache.get(name, key, lambda run, _: attempt_for(run, view))

    def places(self, name: str, attempt: int) -> dict[int, Place]:
        """Ranks of an attempt with coordinates and clocks."""
        key = ("timeline ranks", attempt)
        return self.hub.cache.get(name, key, lambda run, _: places_of(run, attempt))

    def _extent(self, name: str, attempt: int, ranks: list[int]) -> Extent | None:
        key = ("timeline extent", attempt, tuple(ranks))
        return self.hub.cache.get(name, key, lambda run, _: extent(run, attempt, ranks))

    def _nothing(self, name: str, attempt: int, ranks: list[int]) -> str:
        """That the lanes are empty; where ranks may still write, when they will not be."""
        if self._state(name) == "finished":
            who = named_ranks(ranks)
            return f"No step and no collective of {who} is recorded in attempt {attempt}."
        return (
            f"Rank {ranks[0]} has recorded nothing yet in attempt {attempt}. The lanes appear with "
            "the first step."
        )

    def _state(self, name: str) -> str:
        return self.hub.cache.get(name, "timeline state", lambda run, _: run.state)

    def _picture(
        self, name: str, shown: Selection, width_px: int, stop: Stop | None
    ) -> tuple[Window, Tile]:
        """Window and what is drawn in it: the same whichever of these lanes is selected."""

        def compute(run: Run, stop: Stop | None) -> tuple[Window, Tile]:
            window = shown.window(stop)
            return window, tile(
                run, shown.attempt, shown.lanes, window, width_px, shown.extent, stop
            )

        view = shown.view
        key = ("timeline picture", shown.attempt, tuple(shown.ranks), view.steps, view.t, width_px)
        return self.hub.cache.get(name, key, compute, stop=stop)
