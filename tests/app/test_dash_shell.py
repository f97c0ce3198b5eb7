"""The HTML of every page."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from app.dash_shell import make_dash
from app.runs.hub import Hub
from app.web.assets import assets_version
from tests.app.pages_in_process import call, plain_text


def test_the_page_loads_its_files_below_the_prefix(tmp_path: Path) -> None:
    with closing(Hub(tmp_path)) as hub:
        page = make_dash(hub, "/prefix").server.test_client().get("/").get_data(as_text=True)
    assert f'src="/prefix/assets/{assets_version()}/main.mjs"' in page
    config = re.search(r'id="rankscope-config">([^<]*)<', page)
    assert config
    assert json.loads(config[1])["base"] == "/prefix"


@pytest.mark.parametrize("path", ["/prefix/nothing/here", "/prefix/run"])
def test_an_unknown_path_says_so_and_leads_to_the_runs(tmp_path: Path, path: str) -> None:
    ask = "page.children,page.className,strip-place.children"
    with closing(Hub(tmp_path)) as hub:
        server = make_dash(hub, "/prefix").server
        shown = call(server, ask, "url.pathname", url__pathname=path, url__search="")
        start = call(server, ask, "url.pathname", url__pathname="/prefix/", url__search="")
    assert shown is not None
    assert start is not None
    assert plain_text(shown["page"]["children"]) == f"There is no page '{path}'. All runs"
    assert '"href": "/prefix/"' in json.dumps(shown["page"]["children"])
    assert "There is no page" not in plain_text(start["page"]["children"])


def test_all_runs_together_are_a_page_next_to_the_list(tmp_path: Path) -> None:
    ask = "page.children,page.className,strip-place.children"
    with closing(Hub(tmp_path)) as hub:
        server = make_dash(hub, "/prefix").server
        shown = call(server, ask, "url.pathname", url__pathname="/prefix/fleet", url__search="")
        bar = call(
            server, "topbar.children", "url.pathname", url__pathname="/prefix/fleet", url__search=""
        )
    assert shown is not None
    assert bar is not None
    assert '"data-view": "fleet"' in json.dumps(shown["page"]["children"])
    assert shown["strip-place"]["children"] is None
    tabs = map(json.loads, re.findall(r'{[^{}]*"data-page"[^{}]*}', json.dumps(bar)))
    assert [(tab["children"], tab["href"], tab["aria-current"]) for tab in tabs] == [
        ("Runs", "/prefix/", "false"),
        ("Fleet", "/prefix/fleet", "page"),
    ]
