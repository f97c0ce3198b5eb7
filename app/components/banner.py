"""The banner: the finding to look at first, in plain language, or that there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from app.view_state import View, format_ranks
from diagnosis.findings import Diagnosis, Evidence, Finding


@dataclass(frozen=True)
class Headline:
    """What is said where there is no finding. `tone`: calm or unknown, the class of its style."""

    tone: str
    title: str
    text: str


def headline(diagnosis: Diagnosis) -> Headline:
    """Calm only where something was judged and nothing stood out."""
    if not diagnosis.judged:
        missing = diagnosis.not_enough[0].missing if diagnosis.not_enough else "Nothing to judge."
        return Headline("unknown", "Not enough data", missing)
    if diagnosis.set_aside:
        said = " ".join([*diagnosis.set_aside, _in_order(diagnosis.checked)])
        return Headline("unknown", "Noted, no finding", said)
    return Headline("calm", "No slow rank", _in_order(diagnosis.checked))


def _in_order(checked: Sequence[str]) -> str:
    """The first sentence and how many more there are: the drawer lists them all."""
    if len(checked) < 2:
        return " ".join(checked)
    others = "1 other check" if len(checked) == 2 else f"{len(checked) - 1} other checks"
    return f"{checked[0]} {others} found nothing either."


def banner(diagnosis: Diagnosis, view: View, base: str) -> Component:
    """One line for one finding, with what to press; green or grey where there is none."""
    finding = chosen(diagnosis, view.finding)
    if finding is not None:
        return _finding_line(diagnosis, finding, view, base)
    said = headline(diagnosis)
    text = [said.text, " ", missing(diagnosis, view.finding)]
    return html.Div(
        html.P([html.Strong(f"{said.title}."), " ", *text], className="said"),
        className=f"banner {said.tone}",
        role="status",
    )


def chosen(diagnosis: Diagnosis, finding_id: str | None) -> Finding | None:
    """The finding of that id, else the most urgent one, else None.

    The first step of a finding may move while its run is live: the same ranks with the same fault
    are the same finding, the one that begins nearest.
    """
    findings = diagnosis.findings
    return _same(findings, finding_id) or next(iter(findings), None)


def missing(diagnosis: Diagnosis, finding_id: str | None) -> str | None:
    """A sentence where a link names a finding that is no longer there: what is shown instead."""
    if finding_id is None or _same(diagnosis.findings, finding_id) is not None:
        return None
    shown = chosen(diagnosis, finding_id)
    instead = f"; shown is: {shown.title}" if shown else ""
    return f"The finding of this link is no longer there{instead}."


def _same(findings: Sequence[Finding], finding_id: str | None) -> Finding | None:
    if finding_id is None:
        return None
    who, _, step = finding_id.rpartition("-")
    near = [f for f in findings if f.id == finding_id or (who and f.id.rpartition("-")[0] == who)]
    wanted = int(step) if re.fullmatch("[0-9]{1,16}", step) else 0
    return min(near, key=lambda f: abs(f.first_step - wanted), default=None)


def show_me(finding: Finding, view: View) -> View:
    """The page on which the finding is best seen: its evidence of who waits, else the first."""
    evidence = next(
        (e for e in finding.evidence if dict(e.view).get("page") == "timeline"),
        finding.evidence[0],
    )
    return link_of(evidence, view).to(finding=finding.id)


def link_of(evidence: Evidence, view: View) -> View:
    """The view on which a piece of evidence is seen, in the run of `view`."""
    return View(run=view.run).to(**dict(evidence.view))


def _finding_line(diagnosis: Diagnosis, finding: Finding, view: View, base: str) -> Component:
    findings = diagnosis.findings
    tone = finding.severity
    position = findings.index(finding) + 1
    gone = missing(diagnosis, view.finding)
    target = show_me(finding, view)
    tools = []
    if len(findings) > 1:
        tools.append(
            html.Span(
                [
                    html.Button("‹", title="previous finding (k)", **_act("finding-previous")),
                    html.Span(f"{position} of {len(findings)}", className="quiet"),
                    html.Button("›", title="next finding (j)", **_act("finding-next")),
                ],
                className="turn",
            )
        )
    tools += [
        html.A(
            "Show me",
            href=target.url(base),
            className="button strong",
            title=(f"the timeline of ranks {format_ranks(target.ranks)} at its first steps"),
            **{"data-open": target.url(base)},
        ),
        html.Button("Evidence", title="everything that supports it", **_act("drawer")),
        html.Button(
            "Copy link", title="copies a link to exactly this", **{"data-copy": target.url(base)}
        ),
    ]
    return html.Div(
        [
            html.P(
                [
                    html.Strong(f"{finding.title}."),
                    " ",
                    finding.text,
                    *([" ", html.Em(gone)] if gone else []),
                ],
                className="said",
            ),
            html.Div(tools, className="tools"),
        ],
        className=f"banner {tone}",
        role="alert" if tone == "urgent" else "status",
        **{"data-finding": finding.id},
    )


def _act(name: str) -> dict[str, str]:
    return {"data-act": name}
