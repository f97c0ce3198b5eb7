"""The shared file as text: HTML with style, script and data inside, that asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache

from markupsafe import Markup

from app.components.kpi_tiles import line_svg, pooled
from app.components.outstanding import HEAD, MOST_GROUPS, apart_note, front_texts
from app.share.bundle import bundle, from_folder
from app.share.collected_view import CollectedView
from app.share.markup import joined, tag
from app.views.ranks.rank_table import RankRow
from app.views.run.kpi import Kpi
from app.views.run.runs import state_text
from app.web.assets import assets_folder
from diagnosis.cost_text import cost_line
from diagnosis.findings import Finding
from diagnosis.statistics.units import steps_text

ENTRY = "offline.mjs"
STYLES = tuple(
    f"css/{name}.css"
    for name in (
        "base",
        "ranks",
        "timeline",
        "stuck",
        "machines",
        "data",
        "experts",
        "whatif",
        "efficiency",
        "mfu",
        "roofline",
        "goodput",
        "selftest",
        "share",
    )
)
NONE = "\u2013"
_MOST_POINTS = 80
_COLUMNS = (
    ("Slowdown", "slowdown", "x", 2),
    ("Step time", "step_ms", "ms", 1),
    ("Compute", "compute_ms", "ms", 1),
    ("Exposed comm", "exposed_comm_ms", "ms", 1),
    ("Data wait", "data_wait_ms", "ms", 1),
    ("Idle", "bubble_ms", "ms", 1),
    ("Wait", "wait_ms", "ms", 1),
    ("Wait caused", "wait_caused_ms", "rank-ms", 1),
)


@cache
def _script() -> str:
    return bundle(ENTRY, from_folder(assets_folder()))


@cache
def _style() -> str:
    texts = [(assets_folder() / path).read_text(encoding="utf-8") for path in STYLES]
    return "\n".join(texts).replace("</style", "<\\/style")


def document(collected: CollectedView, is_reduced: bool = False) -> str:
    """The whole file; `is_reduced`: a note says that detail was left out to keep it small."""
    notes = list(collected.notes)
    if is_reduced:
        notes.append("Map and timeline are coarser than on the live page, to keep this file small.")
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{_title(collected)} \u00b7 {collected.run}"),
        tag("style", Markup(_style())),
    )
    below = [_pictures(collected), _table(collected)]
    body = joined(
        _top(collected),
        tag(
            "main",
            _banner(collected),
            tag("div", id="shared-stuck", class_="stuck") if collected.stuck else None,
            *_pages(collected),
            tag("div", *[_tile(kpi) for kpi in collected.kpis], class_="shared-kpis", role="list"),
            *(reversed(below) if collected.fronts else below),  # what is open in a dump comes first
            tag("section", *[tag("p", note) for note in notes], class_="quiet shared-notes")
            if notes
            else None,
            class_="page shared-page",
        ),
        tag("div", id="toast", role="status", aria_live="polite"),
        tag("script", Markup(_data(collected)), type="application/json", id="shared-data"),
        tag("script", Markup(_script())),
    )
    page = tag("html", tag("head", head), tag("body", body, class_="shared"), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _pages(collected: CollectedView) -> list[Markup]:
    """Places of what other pages than the overview show, where the file has it."""
    places = (
        ("machines", "machines", "machines"),
        ("machines/telling", "machine-changes", "panel machine-changes"),
        ("data", "data-loading", "data-loading"),
        ("experts", "experts", "experts"),
        ("what-if", "whatif", "whatif"),
        ("mfu", "mfu", "mfu efficiency"),
        ("mfu/operations", "roofline", "roofline"),
        ("startup", "startup", "startup"),
        ("goodput", "goodput", "goodput"),
        ("selftest", "selftest", "selftest"),
    )
    return [
        tag("div", id=f"shared-{name}", class_=kind)
        for key, name, kind in places
        if key in collected.answers
    ]


def _policy() -> str:
    def hashed(text: str) -> str:
        digest = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; script-src {hashed(_script())}; style-src {hashed(_style())}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _title(collected: CollectedView) -> str:
    return collected.finding.title if collected.finding else "rankscope"


def _top(collected: CollectedView) -> Markup:
    steps = f", {steps_text(*collected.chosen_steps)}" if collected.chosen_steps else ""
    return tag(
        "header",
        tag("span", "rankscope", class_="brand"),
        tag("span", collected.run, class_="chip run-name"),
        tag("span", collected.layout, class_="chip") if collected.layout else None,
        tag("span", state_text(collected.state), class_=f"chip state {collected.state}"),
        tag(
            "span",
            tag(
                "span",
                f"attempt {collected.attempt}{steps}, as of {collected.made_at}",
                class_="quiet",
            ),
            tag("a", "Open live", href=collected.live_url, class_="button", rel="noreferrer")
            if collected.live_url
            else None,
            tag(
                "button",
                "\u25d0",
                type="button",
                id="theme",
                title="Dark or light",
                aria_label="dark or light theme",
            ),
            class_="right",
        ),
        class_="topbar shared-top",
    )


def _banner(collected: CollectedView) -> Markup:
    finding = collected.finding
    if finding is None:
        headline = collected.headline
        return tag(
            "section",
            tag("p", tag("strong", f"{headline.title}."), " ", headline.text),
            class_=f"panel shared-banner {headline.tone}",
        )
    return tag(
        "section",
        tag("h1", finding.title),
        tag("p", finding.text),
        tag("p", tag("strong", "Cost: "), cost_line(finding)) if finding.cost else None,
        _evidence(finding),
        tag("p", tag("strong", "Next: "), finding.next_step),
        class_=f"panel shared-banner {finding.severity}",
    )


def _evidence(finding: Finding) -> Markup:
    others = finding.alternatives
    return tag(
        "div",
        tag(
            "div",
            tag("h3", f"Evidence, confidence {finding.confidence}"),
            tag("ul", *[tag("li", evidence.sentence) for evidence in finding.evidence]),
        ),
        tag("div", tag("h3", "Not excluded"), tag("ul", *[tag("li", text) for text in others]))
        if others
        else None,
        class_="shared-evidence",
    )


def _tile(kpi: Kpi) -> Markup:
    spark = None
    if len(kpi.series) > 1:
        values = pooled([value for _, value in kpi.series], _MOST_POINTS)
        spark = Markup(line_svg(values, kpi.baseline).replace("'black'", "'currentColor'"))
    return tag(
        "div",
        tag("h2", kpi.label),
        tag("div", kpi.value, tag("span", f" {kpi.unit}", class_="unit"), class_="value"),
        tag("div", kpi.detail, class_=f"detail {kpi.tone}"),
        tag("div", kpi.extra, class_="detail"),
        tag("div", spark, class_=f"spark {kpi.tone}", aria_hidden="true") if spark else None,
        class_="panel shared-kpi",
        role="listitem",
        title=kpi.meaning,
    )


def _pictures(collected: CollectedView) -> Markup:
    lanes = len(collected.shown_ranks)
    of = f"{lanes} of " if lanes < collected.num_ranks else ""
    of += f"{collected.num_ranks} rank{'' if collected.num_ranks == 1 else 's'}"
    hint = "drag or A, D to move; Ctrl + wheel or W, S to zoom; F to show all"
    timeline = tag(
        "section",
        tag(
            "header",
            tag("h2", "Timeline"),
            tag("span", of, class_="quiet"),
            tag("span", hint, class_="quiet hint"),
        ),
        tag("div", id="shared-timeline"),
        class_="panel",
    )
    heat = tag(
        "section",
        tag(
            "header",
            tag("h2", f"{collected.metric}, rank \u00d7 step"),
            tag("span", id="heat-note", class_="quiet", role="status"),
        ),
        tag("div", id="shared-heat"),
        class_="panel",
    )
    return joined(timeline if collected.tile else None, heat if collected.heat else None)


def _table(collected: CollectedView) -> Markup:
    if not collected.rows or collected.row_steps is None:
        return _fronts(collected)
    left = collected.num_ranks - len(collected.rows)
    about = f"means over {steps_text(*collected.row_steps)}"
    if left > 0:
        about += f"; the {len(collected.rows)} slowest, {left:,} more on the live page"
    head = tag(
        "tr",
        tag("th", "Rank", scope="col"),
        tag("th", "Coordinates", scope="col"),
        tag("th", "Host", scope="col"),
        *[tag("th", f"{c[0]}, {c[2]}", scope="col", class_="number") for c in _COLUMNS],
    )
    named, victims = _judged(collected.finding, collected.row_steps)
    rows = [_row(row, named, victims) for row in collected.rows]
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return tag(
        "section",
        tag("header", tag("h2", "Ranks"), tag("span", about, class_="quiet")),
        tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Ranks"),
        class_="panel shared-ranks",
    )


def _judged(finding: Finding | None, steps: tuple[int, int]) -> tuple[set[int], set[int]]:
    """Culprits and victims in these steps: nobody before the finding begins, or after its end."""
    if finding is None or steps[1] < finding.first_step:
        return set(), set()
    if not finding.ongoing and steps[0] > finding.last_step:
        return set(), set()
    return {place.rank for place in finding.culprits}, set(finding.victims)


def _fronts(collected: CollectedView) -> Markup:
    """What a run without steps has instead of the table of its ranks."""
    if not collected.fronts:
        over = collected.state == "finished"
        reason = "No step times were recorded." if over else "No step is finished yet."
        return tag("section", tag("p", reason), class_="panel quiet")
    head = tag("tr", *[tag("th", text, scope="col") for text in HEAD])
    rows = []
    for front in collected.fronts[:MOST_GROUPS]:
        name, *texts = front_texts(front)
        cells = [tag("td", text) for text in texts]
        rows.append(
            tag(
                "tr",
                tag("th", name, scope="row"),
                *cells,
                class_="apart" if front.is_apart else None,
            )
        )
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    about = tag("span", apart_note(collected.fronts), class_="quiet")
    title = "Where each group stands"
    return tag(
        "section",
        tag("header", tag("h2", title), about),
        tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=title),
        class_="panel shared-ranks",
    )


def _row(row: RankRow, culprits: set[int], victims: set[int]) -> Markup:
    tone = "culprit" if row.rank in culprits else "victim" if row.rank in victims else None
    place = " ".join(
        f"{axis}{getattr(row, axis)}"
        for axis in ("pp", "dp", "cp", "tp")
        if getattr(row, axis) is not None
    )
    cells = []
    for _, name, _, digits in _COLUMNS:
        value = getattr(row, name)
        stands_out = name == "slowdown" and row.beyond_noise and (value or 0) > 1
        text = NONE if value is None else f"{value:,.{digits}f}"
        beyond = " fault" if row.rank in culprits else " beyond"
        cells.append(tag("td", text, class_=f"number{beyond if stands_out else ''}"))
    number = tag("th", tag("span", str(row.rank), class_=tone), scope="row")
    return tag("tr", number, tag("td", place or NONE), tag("td", row.host or NONE), *cells)


def _data(collected: CollectedView) -> str:
    def text(content: bytes | None) -> str | None:
        return None if content is None else base64.b64encode(content).decode()

    finding = collected.finding
    data = {
        "tile": text(collected.tile),
        "heat": text(collected.heat),
        "page": collected.page,
        "rank": collected.rank,
        "expert": collected.expert,
        "pipeline": collected.pipeline,
        "steps": collected.steps,
        "ranks": list(collected.shown_ranks),
        "stuck": collected.stuck,
        "answers": {
            key: {"base64": text(value)} if isinstance(value, bytes) else value
            for key, value in collected.answers.items()
        },
        "finding": finding.id if finding else None,
        "culprits": [place.rank for place in finding.culprits] if finding else [],
        "victims": list(finding.victims) if finding else [],
        "fault_steps": [finding.first_step, None if finding.ongoing else finding.last_step]
        if finding
        else None,
    }
    return json.dumps(data).replace("<", "\\u003c")
