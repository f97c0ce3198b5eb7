"""Banner, drawer and count follow the address and live data."""

from __future__ import annotations

from app.components.findings_frame import view_at
from app.dash_shell import make_dash
from app.runs.hub import Hub
from app.view_state import View
from tests.app.pages_in_process import call, plain_text


def test_the_frame_on_every_page(hub: Hub) -> None:
    server = make_dash(hub, "").server
    ask = "banner-place.children,drawer.children,found.data"

    def shown(path: str, search: str = "") -> dict:
        answer = call(
            server,
            ask,
            "url.pathname",
            url__pathname=path,
            url__search=search,
            view__data={"path": path, "search": search},
        )
        assert answer is not None
        return answer

    overview = shown("/run/slow_rank/overview")
    assert "Rank 5 is slow." in plain_text(overview["banner-place"]["children"])
    timeline = shown("/run/slow_rank/timeline")
    assert timeline["banner-place"]["children"] is None  # the link names no finding
    assert "Evidence" in plain_text(timeline["drawer"]["children"])
    assert "Clocks" in plain_text(timeline["drawer"]["children"])
    linked = shown("/run/slow_rank/timeline", "?finding=slow_worker-0-5-5")
    assert "Rank 5 is slow." in plain_text(linked["banner-place"]["children"])
    assert shown("/")["drawer"]["children"] is None
    assert shown("/run/nobody/overview")["drawer"]["children"] is None

    again = {"url__pathname": "/run/slow_rank/overview", "found__data": overview["found"]["data"]}
    assert not call(server, ask, "pulse.data", **again)  # news that change nothing here
    again["found__data"] = timeline["found"]["data"]
    assert call(server, ask, "pulse.data", **again)["banner-place"] == overview["banner-place"]


def test_the_count_follows(hub: Hub) -> None:
    server = make_dash(hub, "").server
    answer = call(
        server,
        "findings-count.children",
        "findings-count.id",
        url__pathname="/run/slow_rank/ranks",
        url__search="",
    )
    assert answer is not None
    assert plain_text(answer["findings-count"]["children"]) == "1 finding"


def test_the_view_is_that_of_the_address_bar_until_the_page_has_sent_its_own() -> None:
    sent = {"path": "/b/run/x/ranks", "search": "?rank=3"}
    assert view_at(sent, "/b/run/x/ranks", "?rank=1", "/b") == View("x", "ranks", rank=3)
    assert view_at(sent, "/b/run/y/ranks", "?rank=1", "/b") == View("y", "ranks", rank=1)
    assert view_at(None, None, None, "") == View()
