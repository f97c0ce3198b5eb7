"""The HTML of every page."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

from app.dash_shell import make_dash
from app.runs.hub import Hub
from app.web.assets import assets_version


def test_the_page_loads_its_files_below_the_prefix(tmp_path: Path) -> None:
    with closing(Hub(tmp_path)) as hub:
        page = make_dash(hub, "/prefix").server.test_client().get("/").get_data(as_text=True)
    assert f'src="/prefix/assets/{assets_version()}/main.mjs"' in page
    config = re.search(r'id="rankscope-config">([^<]*)<', page)
    assert config
    assert json.loads(config[1])["base"] == "/prefix"
