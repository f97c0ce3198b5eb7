"""Where a step's time goes: one stacked bar per rank, or per stage where there are many ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

MOST_RANKS = 16
"""Bars of single ranks; more ranks are averaged by pipeline stage."""

Parts = Mapping[str, tuple[str, str, str]]

PARTS: Parts = {
    "compute_ms": ("compute", "backward", ""),
    "tp_ms": ("TP communication", "tp", "/"),
    "pp_ms": ("PP communication", "pp", "/"),
    "dp_ms": ("DP communication", "dp", "/"),
    "ep_ms": ("EP communication", "ep", "/"),
    "other_comm_ms": ("other communication", "other", "/"),
    "data_wait_ms": ("waiting for data", "data", ""),
    "schedule_ms": ("bubble: schedule", "bubble", ""),
    "waiting_ms": ("idle: waiting for a rank", "wait", "x"),
    "other_ms": ("idle: host", "host", ""),
    "not_visible_ms": ("idle: not visible", "unseen", "."),
}
"""Column of where_time_goes.sql: (label, colour, hatching: communication is never hue alone)."""

COLOURS = {
    "dark": {
        "backward": "#2563C9",
        "tp": "#F2A93B",
        "pp": "#FFF0A3",
        "dp": "#C8501E",
        "ep": "#9BD1FF",
        "other": "#98A1AF",
        "data": "#2FA58C",
        "wait": "#98A1AF",
        "bubble": "#39404C",
        "host": "#C77DD8",
        "unseen": "#20252E",
        "text": "#98A1AF",
        "line": "#262C36",
    },
    "light": {
        "backward": "#123F8C",
        "tp": "#E89A1C",
        "pp": "#8C7A00",
        "dp": "#9E3A06",
        "ep": "#3C7FC0",
        "other": "#566070",
        "data": "#0F8A78",
        "wait": "#566070",
        "bubble": "#C4CAD3",
        "host": "#A44FB8",
        "unseen": "#E7EAEE",
        "text": "#566070",
        "line": "#DCE0E6",
    },
}
WITHOUT_PIPELINE = {**PARTS, "schedule_ms": ("idle: waiting, no late rank", "bubble", "")}
"""The same of a job without a pipeline."""
_LEAST_SHARE = 0.001
"""Parts that take less than this share everywhere are left out."""


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of where_time_goes: index = names of the bars in order, columns = parts in ms."""
    table = pd.DataFrame(rows, columns=["rank", "pp", *PARTS])
    if len(table) <= MOST_RANKS:
        table.index = pd.Index([f"rank {rank}" for rank in table["rank"]])
        return table[list(PARTS)].astype(float)
    stage = table["pp"].map(lambda pp: "all ranks" if pd.isna(pp) else f"stage {int(pp)}")
    order = list(dict.fromkeys(stage[table["pp"].argsort(kind="stable")]))
    return table[list(PARTS)].astype(float).groupby(stage).mean().loc[order]


def figure(table: pd.DataFrame, theme: str, parts: Parts = PARTS) -> go.Figure:
    """The chart of frame_of's table; theme: dark or light. `parts`: or WITHOUT_PIPELINE."""
    colours = COLOURS.get(theme, COLOURS["dark"])
    total = table.sum(axis=1).max() if len(table) else 0.0
    bars = [
        go.Bar(
            y=table.index,
            x=table[part],
            name=label,
            orientation="h",
            marker={
                "color": colours[colour],
                "line": {"width": 0},
                "pattern": {
                    "shape": hatch,
                    "size": 6,
                    "solidity": 0.2 if colour == "wait" else 0.4,
                    "bgcolor": colours["bubble"] if colour == "wait" else "rgba(0,0,0,0)",
                },
            },
            hovertemplate="%{y}: " + label + " %{x:,.1f} ms<extra></extra>",
        )
        for part, (label, colour, hatch) in parts.items()
        if len(table) and table[part].max() > _LEAST_SHARE * total
    ]
    chart = go.Figure(bars)
    chart.update_layout(
        barmode="stack",
        bargap=0.25,
        height=90 + 26 * max(len(table), 2),
        margin={"l": 4, "r": 8, "t": 4, "b": 34},
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": colours["text"], "size": 12, "family": "system-ui, sans-serif"},
        legend={"orientation": "h", "y": -0.02, "yanchor": "top", "traceorder": "normal"},
        xaxis={
            "gridcolor": colours["line"],
            "zeroline": False,
            "ticksuffix": " ms",
            "side": "top",
            "automargin": True,
        },
        yaxis={"autorange": "reversed", "automargin": True, "ticksuffix": " "},
    )
    return chart
