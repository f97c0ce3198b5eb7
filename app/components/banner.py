"""The banner: the finding to look at first, in plain language, or that there is none."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from app.analysis.finding_links import chosen_finding, finding_view, stale_link_note
from app.analysis.headline import headline, only_waits
from app.view_state import View
from diagnosis.findings import Diagnosis, Finding


def banner(diagnosis: Diagnosis, view: View, base: str, state: str = "finished") -> Component:
    """One line for one finding, with its buttons; green, amber or grey where there is none."""
    finding = chosen_finding(diagnosis, view.finding)
    note = stale_link_note(diagnosis, view.finding)
    if finding is not None and not (view.finding is None and only_waits(diagnosis)):
        return _finding_line(diagnosis, finding, note, _buttons(finding_view(finding, view), base))
    calm = headline(diagnosis, state)
    sentence = [html.Strong(f"{calm.title}."), " ", calm.text, " ", note]
    tools = (
        []
        if calm.page is None
        else [_show_me(View(view.run, calm.page, attempt=view.attempt), base)]
    )
    return html.Div(
        [html.P(sentence, className="message"), *tools],
        className=f"banner {calm.tone}",
        role="status",
    )


def _finding_line(
    diagnosis: Diagnosis, finding: Finding, note: str | None, buttons: list[Component]
) -> Component:
    sentence = [html.Strong(f"{finding.title}."), " ", finding.text]
    if note:
        sentence += [" ", html.Em(note)]
    return html.Div(
        [
            html.P(sentence, className="message"),
            html.Div([*_position(diagnosis, finding), *buttons], className="tools"),
        ],
        className=f"banner {finding.severity}",
        role="alert" if finding.severity == "urgent" else "status",
        **{"data-finding": finding.id},
    )


def _position(diagnosis: Diagnosis, finding: Finding) -> list[Component]:
    """Which of several findings this is, and buttons to the others."""
    findings = diagnosis.findings
    if len(findings) < 2:
        return []
    position = f"{findings.index(finding) + 1} of {len(findings)}"
    buttons = [
        html.Button("\u2039", title="previous finding (k)", **_act("finding-previous")),
        html.Span(position, className="quiet"),
        html.Button("\u203a", title="next finding (j)", **_act("finding-next")),
    ]
    return [html.Span(buttons, className="turn")]


def _show_me(target: View, base: str) -> Component:
    url = target.url(base)
    return html.A(
        "Show me",
        href=url,
        className="button strong",
        title="opens the view that shows this",
        **{"data-open": url},
    )


def _buttons(target: View, base: str) -> list[Component]:
    url = target.url(base)
    return [
        _show_me(target, base),
        html.Button("Evidence", title="opens the findings and their evidence", **_act("drawer")),
        html.Button(
            "Copy link",
            title="copies a link to the view of this finding",
            **{"data-copy": url},
        ),
    ]


def _act(name: str) -> dict[str, str]:
    return {"data-act": name}
