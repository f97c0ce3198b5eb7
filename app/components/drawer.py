"""The drawer: every finding with its evidence, what else it may be, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from app.analysis.finding_links import chosen_finding, evidence_view, finding_view
from app.analysis.not_identifiable import not_identifiable
from app.analysis.run_diagnosis import unjudged
from app.view_state import View, format_ranks
from app.views.run.about_run import Clocks
from diagnosis.cost_text import cost_line
from diagnosis.findings import Diagnosis, Evidence, Finding
from diagnosis.statistics.units import steps_text

_MOST_VICTIMS = 64
MOST_LISTED = 100
"""Findings in the drawer; a browser takes seconds for thousands of them."""


def drawer(diagnosis: Diagnosis, view: View, base: str, clocks: Clocks | None = None) -> Component:
    """Contents of the drawer; the chosen finding is open, the others folded."""
    selected = chosen_finding(diagnosis, view.finding)
    parts: list[Component] = [
        html.Header(
            [
                html.H2("Findings"),
                html.Button("Close", title="Esc", **{"data-act": "close-drawer"}),
            ]
        )
    ]
    listed = _listed(diagnosis.findings, selected)
    parts += [_finding(finding, view, base, is_open=finding is selected) for finding in listed]
    if len(listed) < len(diagnosis.findings):
        parts.append(html.P(_left_out(diagnosis, len(listed), view), className="quiet"))
    if not diagnosis.findings:
        parts.append(html.P("Nothing was found.", className="quiet"))
    parts += _sentences("Set aside", diagnosis.set_aside)
    parts += _not_identifiable(diagnosis)
    could_not, not_recorded = unjudged(diagnosis)
    parts += _sentences("Could not be judged", could_not)
    parts += _sentences("Not recorded", not_recorded)
    if clocks is not None:
        parts += [html.H3("Clocks"), html.P(clocks.sentence, className=_tone(clocks))]
    parts += _sentences("In order", diagnosis.checked)
    return html.Div(parts, className="findings")


def _listed(findings: Sequence[Finding], selected: Finding | None) -> list[Finding]:
    """The first MOST_LISTED, which are the most urgent; the chosen one is among them."""
    listed = list(findings[:MOST_LISTED])
    if selected is not None and selected not in listed:
        listed[-1] = selected
    return listed


def _left_out(diagnosis: Diagnosis, num_listed: int, view: View) -> str:
    number = len(diagnosis.findings)
    return (
        f"{num_listed} of {number:,} findings are listed; j and k go through all of them, and "
        f"`rankscope diagnose {view.run}` prints them."
    )


def _not_identifiable(diagnosis: Diagnosis) -> list[Component]:
    """What no run shows by itself, and what to do: each remedy stands there once."""
    unseen = not_identifiable(diagnosis)
    remedies = dict.fromkeys(kind["remedy"] for kind in unseen)
    why = _sentences("Cannot be decided from this run", [kind["why"] for kind in unseen])
    return why + [html.P(remedy, className="remedy") for remedy in remedies]


def _tone(clocks: Clocks) -> str:
    return "note unaligned" if clocks.is_unaligned else "quiet"


def _sentences(title: str, sentences: Sequence[str]) -> list[Component]:
    if not sentences:
        return []
    unique = dict.fromkeys(sentences)  # detectors that read the same may find the same
    return [html.H3(title), html.Ul([html.Li(sentence) for sentence in unique])]


def _finding(finding: Finding, view: View, base: str, is_open: bool) -> Component:
    culprits = [(f"{place}", place.host or "unknown host") for place in finding.culprits]
    rows = [
        *culprits,
        ("Steps", _steps(finding)),
        ("Confidence", finding.confidence),
    ]
    if finding.cost is not None:
        rows.append(("Cost", cost_line(finding)))
    if finding.victims:
        shown = format_ranks(finding.victims[:_MOST_VICTIMS]).replace(",", ", ")
        more = len(finding.victims) - _MOST_VICTIMS
        ranks = "rank" if len(finding.victims) == 1 else "ranks"
        rows.append(
            (
                f"Waiting for {'it' if len(finding.culprits) <= 1 else 'them'}",
                f"{ranks} {shown}" + (f" and {more} more" if more > 0 else ""),
            )
        )
    show = finding_view(finding, view).url(base)
    body = [
        html.P(finding.text),
        html.Dl([part for name, text in rows for part in (html.Dt(name), html.Dd(text))]),
        html.H3("Evidence"),
        html.Ol([_evidence(evidence, finding, view, base) for evidence in finding.evidence]),
        html.H3("Not excluded"),
        html.Ul([html.Li(sentence) for sentence in finding.alternatives]),
        html.H3("Try next"),
        html.P(finding.next_step),
        html.Div(
            [
                html.A("Show me", href=show, className="button", **{"data-open": show}),
                html.Button("Copy link", **{"data-copy": show}),
            ],
            className="tools",
        ),
    ]
    return html.Details(
        [html.Summary([html.Strong(finding.title), " ", html.Span(_since(finding))]), *body],
        open=is_open,
        className=f"finding {finding.severity}",
        id=f"finding-{finding.id}",
        key=f"{finding.id}-{is_open}",
    )


def _steps(finding: Finding) -> str:
    first, last = finding.first_step, finding.last_step
    if not finding.ongoing:
        return f"{first}, over" if first == last else f"{first}-{last}, over"
    return f"{first}, the newest step" if first == last else f"{first}-{last}, to the newest step"


def _since(finding: Finding) -> str:
    slow = f"{finding.slowdown:.2f}x " if finding.slowdown else ""
    if finding.ongoing and finding.last_step > finding.first_step:
        return f"{slow}since step {finding.first_step}"
    return f"{slow}in {steps_text(finding.first_step, finding.last_step)}"


def _evidence(evidence: Evidence, finding: Finding, view: View, base: str) -> Component:
    shown = evidence_view(evidence, view).to(finding=finding.id).url(base)
    args = tuple((name, str(value)) for name, value in evidence.params)
    query = View(view.run, "query", q=evidence.question, args=args).url(base)
    links = [
        html.A("see it", href=shown, **{"data-open": shown}),
        html.A(
            "run the query",
            href=query,
            title=f"saved query {evidence.question}",
            **{"data-open": query},
        ),
    ]
    return html.Li([evidence.sentence, " ", html.Span(links, className="links")])
