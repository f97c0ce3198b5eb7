"""Runs, the start page: the table of runs, and how to add one."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict

from dash import Dash, html
from dash.development.base_component import Component

from app.analysis.run_board import board_of
from app.runs.hub import Hub
from app.uploads.files import limit_bytes
from app.view_state import View


def render(hub: Hub, view: View) -> Component:
    """The page: the table is drawn by assets/runs/view.mjs, from rows that come along."""
    rows = board_of(hub).rows()
    options = {
        "rows": [asdict(row) for row in rows],
        "limit_bytes": limit_bytes(),
        "read_only": bool(hub.read_only),
    }
    return html.Div(
        [
            html.Div(
                className="panel runs",
                **{"data-view": "runs", "data-options": json.dumps(options)},
            ),
            _read_only(hub.read_only)
            if hub.read_only
            else _how_to(str(hub.store.folder), is_empty=not rows),
        ],
        className="runs-page",
    )


def _read_only(why: str) -> Component:
    return html.P(why, className="quiet note")


def _how_to(folder: str, is_empty: bool) -> Component:
    """Ways to add a run; open where there is none."""
    where = shlex.quote(folder)
    job = f"torchrun --nproc-per-node 8 -m trace_hooks --folder {where} train.py"
    lines = f"import trace_hooks as th\ntracer = th.start({json.dumps(folder)}, model=model)"
    ways = [
        ("Record a job without changing its script", job),
        ("Or with two lines in the script, which every rank runs", lines),
        (
            "No job at hand? Record a small one: 8 ranks on this machine",
            f"rankscope demo --runs {where}",
        ),
        (
            "torch.profiler files: drop them on this page, or import them",
            f"rankscope import trace.json.gz --into {where}",
        ),
    ]
    blocks = [
        html.Div([html.H3(title), html.Pre(html.Code(code), tabIndex="0")]) for title, code in ways
    ]
    return html.Details(
        [
            html.Summary("Add a run"),
            html.P(
                ["Runs in ", html.Code(folder), " appear on this page automatically."],
                className="quiet",
            ),
            html.Div(blocks, className="ways"),
        ],
        className="panel how-to",
        open=is_empty,
    )


def register(dash: Dash, hub: Hub) -> None:
    """The page has no callbacks: assets/runs/view.mjs fetches the list."""
