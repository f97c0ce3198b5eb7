"""The bar on top of every page: which run, how it is, the tabs, and what can be done everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from app.analysis.headline import is_stuck, only_waits
from app.analysis.run_diagnosis import unjudged
from app.components.start_tabs import start_tabs
from app.runs.hub import Hub
from app.view_state import Page, View
from app.views.run.runs import card_of, state_text
from diagnosis.findings import Diagnosis
from ingest.run import Run

_MARK = "▚"


def topbar(hub: Hub, view: View, base: str, tabs: Sequence[Page]) -> Component:
    """Brand, tabs, run, layout, live state and tools; raises UserError for an unknown run."""
    brand = html.A(
        [html.Span(_MARK, className="mark", **{"aria-hidden": "true"}), "rankscope"],
        href=f"{base}/",
        className="brand",
        title="all runs",
    )
    if view.run is None:
        tools = html.Div([_theme(), _help()], className="right")
        return html.Header([brand, start_tabs(view, base), tools], className="topbar")
    run = hub.run(view.run)
    card = hub.cache.get(view.run, "card", lambda run, _: card_of(run))
    right = [*_chips(run, view.run, view), *_tools()]
    return html.Header(
        [brand, _tabs(view, base, tabs), html.Div(right, className="right")],
        className="topbar",
        **{"data-attempt": str(run.newest_attempt), "data-bar": card.bar},
    )


def _tabs(view: View, base: str, tabs: Sequence[Page]) -> Component:
    links = [
        html.A(
            page.title,
            href=View(view.run, page.name).url(base),
            **{
                "data-page": page.name,
                "aria-current": "page" if page.name == view.page else "false",
            },
        )
        for page in tabs
    ]
    return html.Nav(links, **{"aria-label": "pages"})


def _chips(run: Run, name: str, view: View) -> list[Component]:
    layout = run.layout(view.attempt)
    chips = [html.Span(name, className="chip run-name", title=f"run {name}")]
    attempts = run.attempts
    if len(attempts) > 1:
        options = [html.Option("newest attempt", value="")] + [
            html.Option(f"attempt {number}", value=str(number)) for number in attempts
        ]  # page_controls.mjs chooses the one in view: Dash's Select has no value
        chips.append(html.Select(options, id="attempt-chooser", **{"aria-label": "attempt"}))
    if layout is not None:
        sizes = " ".join(f"{axis} {size}" for axis, size in (*layout.axes, *layout.experts))
        title = "sizes of the parallel axes, slowest varying first"
        chips.append(html.Span(sizes, className="chip layout", title=title))
    state = run.state
    chips.append(html.Span(state_text(state), id="live-state", className=f"chip state {state}"))
    return chips


def _tools() -> list[Component]:
    return [
        _button(
            "pause",
            "Pause",
            "Stop updating the page; data keeps arriving",
            id="pause-button",
        ),
        html.Span(id="findings-count"),
        _button(
            "copy-link",
            "Copy link",
            "Copies a link to this page with steps, ranks and selection",
        ),
        html.Span(id="share-place", **{"data-view": "share"}),
        _theme(),
        _help(),
    ]


def findings_button(diagnosis: Diagnosis) -> Component:
    """Opens the drawer; says how many findings there are, and carries their ids for j and k."""
    number = len(diagnosis.findings)
    severities = {finding.severity for finding in diagnosis.findings}
    acting = (name for name in ("urgent", "warning") if name in severities)
    if number:
        text = "1 finding" if number == 1 else f"{number} findings"
    elif only_waits(diagnosis):
        text = "Ranks wait"
    elif not diagnosis.judged:
        text = "Not judged"
    else:
        could_not, _ = unjudged(diagnosis)
        text = "Partly judged" if could_not else "No finding"
    return html.Button(
        text,
        id="findings-button",
        className=next(acting, ""),
        title="evidence (E)",
        **{
            "data-act": "drawer",
            "data-ids": " ".join(f.id for f in diagnosis.findings),
            "data-stuck": str(is_stuck(diagnosis)).lower(),  # findings.css colours the tab
        },
    )


def _theme() -> Component:
    return _button("theme", "◐", "Dark or light", **{"aria-label": "dark or light theme"})


def _help() -> Component:
    return _button("help", "?", "Keys and what they do (?)", **{"aria-label": "help"})


def _button(act: str, text: str, title: str, **more: str) -> Component:
    return html.Button(text, title=title, **{"data-act": act, **more})
