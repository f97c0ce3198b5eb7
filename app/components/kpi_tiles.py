"""Tiles of the overview: a number, what it is compared with, and its past as a small line."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from dash import html
from dash.development.base_component import Component

from app.views.run.kpi import Kpi

WIDTH, HEIGHT = 120, 26
_MOST_POINTS = 120
_LEAST_SPAN = 0.2
"""Of the value: what hardly changes is a calm line in the middle, neither mountain nor floor."""


def tiles(kpis: Sequence[Kpi]) -> Component:
    """A row of tiles; a run that may still finish its first step has a sentence besides."""
    row = html.Div([_tile(kpi) for kpi in kpis], className="kpis", role="list")
    if any(kpi.key in ("step_time", "recorded") for kpi in kpis):
        return row
    text = "No step is finished yet: the numbers appear with the first one."
    return html.Div(
        [*([row] if kpis else []), html.P(text, className="sentence")], className="no-kpis"
    )


def _tile(kpi: Kpi) -> Component:
    number = [html.Span(kpi.value, className="value")]
    if kpi.unit:
        number.append(html.Span(f" {kpi.unit}", className="unit"))
    parts = [
        html.H2(kpi.label),
        html.Div(number, className="number-line"),
        html.Div(kpi.detail, className=f"detail {kpi.tone}"),
        html.Div(kpi.extra, className="detail extra"),
    ]
    line = sparkline(kpi)
    if line is not None:
        parts.append(line)
    return html.Div(parts, className="kpi panel", role="listitem", title=kpi.meaning)


def sparkline(kpi: Kpi) -> Component | None:
    """The series as a line and the baseline dashed, drawn as a mask so that themes colour it."""
    if len(kpi.series) < 2:
        return None
    values = pooled([value for _, value in kpi.series], _MOST_POINTS)
    drawing = f'url("data:image/svg+xml,{quote(line_svg(values, kpi.baseline))}")'
    first, last = kpi.series[0], kpi.series[-1]
    return html.Div(
        className=f"spark {kpi.tone}",
        style={"maskImage": drawing, "WebkitMaskImage": drawing},
        role="img",
        **{
            "aria-label": (
                f"{kpi.label}: {_spoken(kpi, first[1])} in step {first[0]}, "
                f"{_spoken(kpi, last[1])} in step {last[0]}"
                + (f"; {_spoken(kpi, kpi.baseline)} in {kpi.baseline_text}" if kpi.baseline else "")
            )
        },
    )


def _spoken(kpi: Kpi, value: float) -> str:
    """A value of the series with its unit: shares are ratios there, times ms."""
    if kpi.unit == "%":
        return f"{100 * value:.3g} %"
    return f"{value:.4g}{' ms' if kpi.key == 'step_time' else ''}"


def pooled(values: Sequence[float], most: int) -> list[float]:
    """At most `most` values: the greatest of each stretch, so that a spike stays."""
    size = -(-len(values) // most)
    return [max(values[start : start + size]) for start in range(0, len(values), size)]


def line_svg(values: Sequence[float], baseline: float | None) -> str:
    """An SVG of WIDTH x HEIGHT: only its alpha counts."""
    ordered = sorted(values)
    highest = ordered[int(0.95 * (len(ordered) - 1))] * 1.05  # a first step of seconds is cut off
    lowest = min(ordered[0], highest, *([baseline] if baseline is not None else []))
    highest = max(highest, baseline or highest)
    room = max(_LEAST_SPAN * abs(highest) - (highest - lowest), 0.0)
    lowest -= room / 2
    span = (highest - lowest + room / 2) or 1.0

    def y(value: float) -> float:
        return HEIGHT - 2 - (HEIGHT - 4) * min(max((value - lowest) / span, 0.0), 1.0)

    step = WIDTH / max(len(values) - 1, 1)
    points = " ".join(f"{index * step:.1f},{y(value):.1f}" for index, value in enumerate(values))
    dashed = ""
    if baseline is not None:
        at = f"{y(baseline):.1f}"
        dashed = (
            f"<line x1='0' x2='{WIDTH}' y1='{at}' y2='{at}' stroke='black' stroke-opacity='.45' "
            "stroke-dasharray='3 3'/>"
        )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' "
        f"preserveAspectRatio='none'>{dashed}<polyline points='{points}' fill='none' "
        "stroke='black' stroke-width='1.5' vector-effect='non-scaling-stroke'/></svg>"
    )
