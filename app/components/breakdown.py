"""The breakdown of a step's time: a chart, loaded when it comes into sight, and its table."""

from __future__ import annotations

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from app.analysis.page_scope import page_scope
from app.figures.breakdown import MOST_RANKS, PARTS, WITHOUT_PIPELINE, Parts, figure, frame_of
from app.runs.hub import Hub
from app.view_state import View
from app.views.ranks.metric_matrix import Steps
from app.views.run.pipelines import may_have_pipeline
from diagnosis.statistics.units import steps_text
from ingest.run import Run


def breakdown(hub: Hub, view: View, theme: str) -> tuple[Component, str]:
    """Chart and table, and a caption; raises UserError."""
    assert view.run is not None
    scope = page_scope(hub, view).steps
    key = ("breakdown", view.attempt, scope)
    table, steps, all_known = hub.cache.get(view.run, key, lambda run, _: _table(run, view, scope))
    if table.empty:
        return html.P("No step is finished yet.", className="quiet"), ""
    caption = f"mean of {steps_text(*steps)}"
    caption += (
        "" if len(table) <= MOST_RANKS and "rank" in table.index[0] else ", averaged over ranks"
    )
    if not all_known:
        caption += (
            "; waiting counts as communication in steps in which it is not known: clocks are not "
            "aligned, members of groups were not recorded, or spans were summed up"
        )
    has_schedule = may_have_pipeline(hub.run(view.run), view.attempt)
    parts = PARTS if has_schedule else WITHOUT_PIPELINE
    chart = dcc.Graph(
        figure=figure(table, theme, parts),
        config={"displayModeBar": False, "responsive": True},
        style={"height": f"{90 + 26 * max(len(table), 2)}px"},
    )
    return html.Div([chart, _as_table(table, parts)]), caption


def _table(run: Run, view: View, scope: Steps | None) -> tuple[pd.DataFrame, tuple[int, int], bool]:
    params = {} if view.attempt is None else {"attempt": view.attempt}
    steps = scope or (0, 0)
    rows = run.ask("where_time_goes", step_min=steps[0], step_max=steps[1], **params).to_pylist()
    return frame_of(rows), steps, all(row["bubble_known"] for row in rows)


def _as_table(table: pd.DataFrame, parts: Parts) -> Component:
    shown = [part for part in parts if table[part].max() > 0]
    head = [html.Th("")] + [html.Th(f"{parts[part][0]}, ms", scope="col") for part in shown]
    rows = [
        html.Tr(
            [
                html.Th(name, scope="row"),
                *(html.Td(f"{table.at[name, part]:,.1f}", className="number") for part in shown),
            ]
        )
        for name in table.index
    ]
    whole = html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)])
    return html.Details([html.Summary("As a table"), html.Div(whole, className="scroll")])
