"""Where each group of a run without steps stands: its oldest collective that nobody saw end."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from app.view_state import View
from app.views.run.without_steps import Front, Recorded, ranks_text

MOST_GROUPS = 12
HEAD = ("group", "oldest not completed", "ranks at it", "ranks ahead", "ranks with nothing open")


def outstanding(found: Recorded, view: View) -> Component | None:
    """The table, groups whose members do not stand together first; None where nothing is open."""
    fronts = open_fronts(found)
    if not fronts:
        return None
    shown = fronts[:MOST_GROUPS]
    table = html.Table(
        [
            html.Thead(html.Tr([html.Th(text, scope="col") for text in HEAD])),
            html.Tbody([_row(front, view) for front in shown]),
        ]
    )
    return html.Section(
        [
            html.Header([html.H2("Where each group stands"), html.Span(apart_note(fronts))]),
            html.Div(table, className="scroll"),
        ],
        className="panel picture outstanding",
        **{"aria-label": "Where each group stands"},
    )


def open_fronts(found: Recorded) -> list[Front]:
    """Groups of several members with a collective that is not completed."""
    return [f for f in found.fronts if f.seq is not None and (f.num_members or 2) > 1]


def apart_note(fronts: Sequence[Front]) -> str:
    """How many of the groups do not stand together, and how many are not shown."""
    apart = sum(front.is_apart for front in fronts)
    rest = len(fronts) - MOST_GROUPS
    verb = "is" if apart == 1 else "are"
    text = f"{apart} of {len(fronts)} groups with open collectives {verb} out of sync"
    return f"{text}; {rest} more are not shown" if rest > 0 else text


def _row(front: Front, view: View) -> Component:
    name, *texts = front_texts(front)
    return html.Tr(
        [
            html.Th(html.A(name, href=_link(front, view)), scope="row"),
            *[html.Td(text) for text in texts],
        ],
        className="apart" if front.is_apart else "",
    )


def front_texts(front: Front) -> tuple[str, str, str, str, str]:
    """What HEAD names, of one group."""
    ahead = ranks_text(front.ahead)
    if front.ahead_seq is not None:
        ahead += f", up to {front.ahead_seq:,}"
    behind, absent = ranks_text(front.behind), ranks_text(front.absent)
    return _name(front), f"{front.op} {front.seq:,}", behind, ahead, absent


def _name(front: Front) -> str:
    axis = "" if front.axis in ("unknown", "") else f"{front.axis.upper()} "
    return f"{axis}{front.name}" or "group"


def _link(front: Front, view: View) -> str:
    """The lanes of its members, relative to the page: wherever it is mounted."""
    ranks = tuple(sorted({*front.behind, *front.ahead, *front.absent}))
    return view.to(page="timeline", ranks=ranks, rank=None).url().rsplit("/", 1)[-1]
