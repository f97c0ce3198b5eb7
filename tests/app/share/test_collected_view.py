"""What a shared file holds of its run: lanes, window, rows and pictures."""

from __future__ import annotations

from dataclasses import replace

from app.server import make_app
from app.share.collected_view import DETAILS, collect
from app.share.shown_view import shown_view
from app.view_state import View
from ingest.errors import UserError
from tests.app.in_process import Client
from tests.app.share.page_parser import meta_of


def collected(hub, *given, **view):
    return collect(hub, shown_view(hub, View(**view)), DETAILS[0], *given)


def test_the_view_decides_lanes_and_window(hub):
    shared = collect(
        hub,
        shown_view(hub, View("slow", "timeline", ranks=(2, 3), steps=(7, 8), rank=3)),
        DETAILS[0],
    )
    assert (shared.shown_ranks, shared.steps, shared.rank) == ((2, 3), (7, 8), 3)
    window = collect(
        hub, shown_view(hub, View("slow", "timeline", ranks=(2,), t=(10**9, 2 * 10**9))), DETAILS[0]
    )
    meta = meta_of(window.tile)
    assert (meta["from"], meta["to"], meta["ranks"]) == (10**9, 2 * 10**9, [2])


def test_steps_of_before_a_restart_are_shown(hub):
    shared = collect(hub, shown_view(hub, View("again", "timeline", steps=(1, 2))), DETAILS[0])
    assert shared.attempt == 0
    assert not [note for note in shared.notes if "no step" in note]
    assert shared.tile is not None


def test_the_tile_in_the_file_is_that_of_the_live_page(hub):
    client = Client(make_app(hub))
    for name, query, view in (
        ("slow", "ranks=2-3&steps=7..8", {"ranks": (2, 3), "steps": (7, 8)}),
        ("relative", "ranks=0-1&from=0&to=100000", {"ranks": (0, 1), "t": (0, 100_000)}),
    ):
        live = meta_of(client.get(f"/api/run/{name}/timeline?{query}&width=8000").content)
        kept = meta_of(
            collect(hub, shown_view(hub, View(name, "timeline", **view)), DETAILS[0]).tile
        )
        for key in ("from", "to", "relative_step", "ranks", "lanes", "attempt", "t0_ns", "clock"):
            assert kept[key] == live[key]
        for key in ("first_step", "last_step", "finished_step", "before_step"):
            assert kept["extent"][key] == live["extent"][key]
    client.close()
    assert kept["relative_step"] == 2


def test_the_rank_of_the_finding_comes_first_in_the_table(hub):
    rows = collected(hub, run="slow").rows
    assert [rows[0].rank, {row.rank for row in rows}] == [5, set(range(8))]
    assert [row.slowdown for row in rows[1:]] == sorted(
        (row.slowdown for row in rows[1:]), reverse=True
    )
    fewer = replace(DETAILS[0], rows=2)
    assert len(collect(hub, shown_view(hub, View("slow")), fewer).rows) == 2


def test_the_link_to_the_live_page_is_below_the_public_address(hub):
    assert collected(hub, run="again").live_url is None
    there = collected(hub, "https://h.example/p/", run="again")
    assert there.live_url == "https://h.example/p/run/again/overview"


def test_a_part_that_cannot_be_read_becomes_a_note_and_the_others_stay(hub, monkeypatch):
    def failing(*_):
        raise UserError("the file of rank 3 is damaged")

    monkeypatch.setattr("app.share.collected_view.kpis_of", failing)
    shared = collected(hub, run="again")
    assert (shared.kpis, shared.notes) == ((), ("The file of rank 3 is damaged.",))
    assert shared.tile is not None
