"""The panel "About this run": provenance, guesses, losses, layout and clocks, and what is wrong.

One line that says the most important; the rest is folded. Where something was lost, or the ranks
cannot be compared, it opens by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from app.components.findings_frame import Address, view_at
from app.runs.hub import Hub
from app.view_state import View
from app.views.run.about_run import METHOD_WORDS, RECORDED, AboutRun, Clocks, Sentence, about_run
from ingest.errors import UserError

MOST_RANKS_AT_ONCE = 1024
"""Of greater jobs the panel comes after the page, as the numbers do."""
_FEW_FILES = 4
_UNKNOWN = "unknown"


def about_panel(about: AboutRun, opened: Sequence[str] | None = None) -> Component:
    """The panel; assets/about/view.mjs makes the form in it and asks for news.

    `opened` names the parts that are open: run (the panel itself), layout, clocks; None: as is fit.
    """
    if opened is None:
        opened = ["run"] if needs_a_look(about) else []
    body = html.Div(
        [_facts(about), html.Div([_guesses(about), _problems(about)], className="notes")],
        className="about-body",
    )
    parts = [html.Summary(_line(about)), body, _layout(about, opened), _clocks(about, opened)]
    return html.Section(
        html.Details(parts, open="run" in opened, **{"data-part": "run"}),
        className="panel about-run",
        **{"aria-label": "About this run", "data-view": "about", "data-key": key_of(about)},
    )


def key_of(about: AboutRun) -> str:
    """Another one where the panel says something else."""
    return hashlib.sha256(repr(about).encode()).hexdigest()[:16]


def needs_a_look(about: AboutRun) -> bool:
    """Whether something is wrong that whoever opens the run should see.

    The clocks of a job that has just begun are not known yet: there the note by the timeline does.
    """
    is_unaligned = about.is_import and about.clocks.is_unaligned
    return bool(about.num_problems) or is_unaligned or about.importing is not None


def unaligned_note(clocks: Clocks) -> Component | None:
    """What stands by a timeline whose lanes cannot be compared."""
    if not clocks.is_unaligned:
        return None
    return html.P(clocks.sentence, className="note unaligned", role="note")


def _line(about: AboutRun) -> list[Component]:
    """What the folded panel says."""
    files = f", {_count(about.num_files, 'file')}" if about.num_files else ""
    marks = [_mark(f"{about.source}{files}")]
    if about.layout is None:
        marks.append(_mark("layout unknown", "warn" if about.is_import else ""))
    elif about.is_import:
        marks.append(_mark(f"{about.layout}, {about.layout_from}"))
    if about.clocks.is_unaligned:
        marks.append(_mark("clocks not aligned", "warn"))
    elif about.clocks.worst_err_us is not None:
        marks.append(_mark(f"clocks within {about.clocks.worst_err_us:,.1f} µs"))
    if about.importing is not None:
        marks.append(_mark(f"importing: {about.importing}", "warn"))
    if about.num_guesses:
        marks.append(_mark(_count(about.num_guesses, "guess", "guesses"), "warn"))
    if about.num_problems:
        marks.append(_mark(_count(about.num_problems, "problem"), "bad"))
    return [html.H2("About this run"), html.Span(marks, className="marks")]


def _mark(text: str, tone: str = "") -> Component:
    return html.Span(text, className=f"mark-of {tone}".strip())


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _facts(about: AboutRun) -> Component:
    layout = f"{about.layout}, {about.layout_from}" if about.layout else _UNKNOWN
    if about.corrected_ns is not None:
        at = datetime.fromtimestamp(about.corrected_ns / 1e9, UTC)
        layout += f" on {at:%Y-%m-%d %H:%M} UTC"
    rows: list[tuple[str, object]] = [("Source", about.source)]
    if about.imported:
        rows.append(("Imported", about.imported.replace("T", " ").replace("Z", " UTC")))
    if about.framework and not about.is_import:
        rows.append(("Software", about.framework))
    rows += [("Ranks", about.ranks), ("Layout", layout), ("Clocks", about.clocks.sentence)]
    if about.content_hash:
        rows.append(
            (
                "Content hash",
                html.Span(
                    [html.Code(about.content_hash), " (rankscope recognises the same files by it)"]
                ),
            )
        )
    if about.files:
        rows.append(("Files", _files(about)))
    pairs = [part for name, value in rows for part in (html.Dt(name), html.Dd(value))]
    return html.Dl(pairs)


def _files(about: AboutRun) -> Component:
    listed = html.Ul([html.Li(html.Code(line)) for line in about.files], className="files")
    more = about.num_files - len(about.files)
    rest = [html.P(f"and {more:,} more", className="quiet")] if more > 0 else []
    if about.num_files <= _FEW_FILES:
        return listed
    return html.Details([html.Summary(_count(about.num_files, "file")), listed, *rest])


def _problems(about: AboutRun) -> Component:
    if about.importing is not None:
        text = (
            "Files are still being read: ranks are missing, and each shows its own clock. Once all "
            "are read, clocks are compared and problems of the files are listed."
        )
        return html.Div(html.P(text))
    if not about.num_problems:
        return html.Div(html.P("Everything in this run could be read.", className="quiet"))
    title = f"{_count(about.num_problems, 'problem')}: lost, left out or not known"
    return html.Div([html.H3(title), _sentences(about.problems)], className="problems")


def _guesses(about: AboutRun) -> Component | None:
    if not about.num_guesses:
        return None
    title = f"{_count(about.num_guesses, 'guess', 'guesses')}: not stated in the files"
    return html.Div([html.H3(title), _sentences(about.guesses)], className="guesses")


def _sentences(sentences: Sequence[Sentence]) -> Component:
    return html.Ul([_sentence(sentence) for sentence in sentences])


def _sentence(sentence: Sentence) -> Component:
    if not sentence.num_others:
        return html.Li(sentence.text)
    unlisted = sentence.num_others - len(sentence.others)
    items = [html.Li(text) for text in sentence.others]
    if unlisted > 0:
        items.append(html.Li(f"and {unlisted:,} more", className="quiet"))
    summary = html.Summary(f"and {sentence.num_others:,} more like it")
    return html.Li([sentence.text, html.Details([summary, html.Ul(items)])])


def _clocks(about: AboutRun, opened: Sequence[str]) -> Component | None:
    clocks = about.clocks
    if not clocks.rows:
        return None
    titles = ("offset, µs", "error, µs", "drift, ppm")
    head = [
        html.Th("rank", scope="col"),
        html.Th("host", scope="col"),
        *(html.Th(title, scope="col", className="number") for title in titles),
        html.Th("method", scope="col"),
    ]
    body = [
        html.Tr(
            [
                html.Th(str(row.rank), scope="row"),
                html.Td(row.host),
                *(
                    html.Td(_number(value, digits), className="number")
                    for value, digits in ((row.offset_us, 1), (row.err_us, 1), (row.drift_ppm, 3))
                ),
                html.Td(METHOD_WORDS.get(row.method, row.method) if row.method else "not aligned"),
            ],
            className="" if row.method else "unaligned",
        )
        for row in clocks.rows
    ]
    more = clocks.num_rows - len(clocks.rows)
    rest = f"The {len(clocks.rows)} known worst of {clocks.num_rows:,}; all: query clock_error."
    table = html.Table([html.Thead(html.Tr(head)), html.Tbody(body)])
    return html.Details(
        [
            html.Summary("Clocks, rank by rank"),
            html.Div(table, className="scroll"),
            *([html.P(rest, className="quiet")] if more > 0 else []),
        ],
        open="clocks" in opened,
        **{"data-part": "clocks"},
    )


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{round(value, digits) + 0.0:,.{digits}f}"  # 0.0, not -0.0


def _layout(about: AboutRun, opened: Sequence[str]) -> Component | None:
    if not about.can_be_corrected:
        return None
    return html.Details(
        [html.Summary("Correct the layout"), html.Div(className="layout-form")],
        open="layout" in opened,
        **{"data-part": "layout"},
    )


def places(hub: Hub, view: View) -> tuple[list[Component], list[Component]]:
    """The panel where it belongs on a page: (what comes before the pictures, what comes last).

    An import's stands first: what was guessed of it matters to all below.
    """
    assert view.run is not None
    run = hub.run(view.run)
    is_first = run.info["source"] not in RECORDED
    if len(run.ranks) > MOST_RANKS_AT_ONCE:
        panel = html.Section(className="panel about-run loading", **{"data-view": "about"})
    else:
        about = about_of(hub, view)
        panel, is_first = about_panel(about), is_first or needs_a_look(about)
    place = html.Div(panel, id="about-place")
    store = dcc.Store(id="about-news")  # set by the browser when the run got something new
    return ([place, store], []) if is_first else ([store], [place])


def note_place(hub: Hub, view: View) -> Component:
    """Where a timeline says that its lanes cannot be compared."""
    assert view.run is not None
    is_great = len(hub.run(view.run).ranks) > MOST_RANKS_AT_ONCE
    note = None if is_great else unaligned_note(about_of(hub, view).clocks)
    return html.Div(note, id="clock-note")


def about_of(hub: Hub, view: View) -> AboutRun:
    """What is known of the run and the attempt in view; raises UserError."""
    assert view.run is not None
    attempt = view.attempt
    return hub.cache.get(view.run, ("about", attempt), lambda run, _: about_run(run, attempt))


def register(dash: Dash, hub: Hub, base: str) -> None:
    """The panel follows news of the run, and is left alone while it says the same."""

    @dash.callback(
        Output("about-place", "children"),
        Output("clock-note", "children"),
        Input("about-news", "data"),
        State("view", "data"),
        State("url", "pathname"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def follow(
        news: dict[str, Any] | None, address: Address, pathname: str | None, search: str | None
    ) -> tuple[Component, Component | None]:
        view = view_at(address, pathname, search, base)
        try:
            about = about_of(hub, view) if view.run is not None else None
        except UserError as error:  # the run is being deleted: the page says so when opened again
            raise PreventUpdate from error
        shown = news or {}
        if about is None or shown.get("shown") == key_of(about):
            raise PreventUpdate
        return about_panel(about, shown.get("open")), unaligned_note(about.clocks)
