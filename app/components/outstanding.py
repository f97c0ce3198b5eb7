"""Where each group of a run without steps stands: its oldest collective that nobody saw end."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from app.links import View
from app.views.recorded import Front, Recorded, ranks_text

MOST_GROUPS = 12
_HEAD = ("group", "oldest not completed", "ranks at it", "ranks further on", "nothing open")


def outstanding(found: Recorded, view: View) -> Component | None:
    """The table, groups whose members do not stand together first; None where nothing is open."""
    fronts = [f for f in found.fronts if f.seq is not None and (f.num_members or 2) > 1]
    if not fronts:
        return None
    shown = fronts[:MOST_GROUPS]
    table = html.Table([
        html.Thead(html.Tr([html.Th(text, scope="col") for text in _HEAD])),
        html.Tbody([_row(front, view) for front in shown]),
    ])  # fmt: skip
    return html.Section(
        [
            html.Header([html.H2("Where each group stands"), html.Span(_said(fronts))]),
            html.Div(table, className="scroll"),
        ],
        className="panel picture outstanding", **{"aria-label": "Where each group stands"},
    )  # fmt: skip


def _said(fronts: list[Front]) -> str:
    apart = sum(front.is_apart for front in fronts)
    rest = len(fronts) - MOST_GROUPS
    text = f"{apart} of {len(fronts)} groups have members at different collectives"
    return f"{text}; {rest} more are not shown" if rest > 0 else text


def _row(front: Front, view: View) -> Component:
    ahead = ranks_text(front.ahead)
    if front.ahead_seq is not None:
        ahead += f", up to {front.ahead_seq:,}"
    return html.Tr(
        [
            html.Th(html.A(_name(front), href=_link(front, view)), scope="row"),
            html.Td(f"{front.op} {front.seq:,}"),
            html.Td(ranks_text(front.behind)), html.Td(ahead), html.Td(ranks_text(front.absent)),
        ],
        className="apart" if front.is_apart else "",
    )  # fmt: skip


def _name(front: Front) -> str:
    axis = "" if front.axis in ("unknown", "") else f"{front.axis.upper()} "
    return f"{axis}{front.name}" or "group"


def _link(front: Front, view: View) -> str:
    """The lanes of its members, relative to the page: wherever it is mounted."""
    ranks = tuple(sorted({*front.behind, *front.ahead, *front.absent}))
    return view.to(page="timeline", ranks=ranks, rank=None).url().rsplit("/", 1)[-1]
