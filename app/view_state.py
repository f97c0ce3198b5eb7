"""The view state of the dashboard, and its only conversion to and from a URL.

`/run/NAME/PAGE?attempt=1&rank=5&ranks=0-3,8&steps=10..20&t=FROM..TO&...`; times are ns since the
run's t0, so that links stay exact in JavaScript. Links never contain row ids: they show the same
after the index was rebuilt. assets/lib/view_state.mjs does the same in the browser; both are tested
with tests/app/view_cases.json.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from diagnosis.statistics.units import steps_text

if TYPE_CHECKING:
    from ingest.run import Run


@dataclass(frozen=True)
class Page:
    """One tab of a run. `key`: after g, it opens the page."""

    name: str
    title: str
    key: str

    @property
    def module(self) -> str:
        """Of app/pages/."""
        return self.name.replace("-", "")


PAGES = (
    Page("overview", "Overview", "o"),
    Page("timeline", "Timeline", "t"),
    Page("ranks", "Ranks", "r"),
    Page("machines", "Machines", "h"),
    Page("data", "Data", "d"),
    Page("experts", "Experts", "x"),
    Page("query", "Query", "q"),
    Page("what-if", "What-if", "w"),
    Page("efficiency", "Efficiency", "f"),
    Page("model", "Model", "m"),
    Page("stuck", "Stuck", "s"),
    Page("selftest", "Selftest", "e"),
)
"""Tabs of a run, in order; the first one opens by default. The browser gets them with each page."""

PAGE_NAMES = tuple(page.name for page in PAGES)

MOST_RANKS = 16_384
"""Lanes of a timeline: the whole of a job with 12,288 ranks."""
_MOST_MARKS = 64
_LAST_ROW = 4
_LONGEST = 4000
_PEAK = re.compile(r"[0-9]{1,6}(\.[0-9]{1,4})?")
_INTEGER = re.compile(r"-?[0-9]{1,16}")
_ARGUMENT = re.compile(r"([qmfp])\.([A-Za-z]\w{0,39})", re.ASCII)
_ARGUMENTS = {"q": "args", "m": "model", "f": "fleet", "p": "pipeline"}
FLEET = "fleet"
"""Page of all runs together, at `/fleet`; its state is the field `fleet`."""
SAFEST = 2**53
"""Browsers represent whole numbers below it exactly."""


@dataclass(frozen=True)
class View:
    """What one browser tab shows. None and empty: the page's default."""

    run: str | None = None
    page: str = "overview"
    attempt: int | None = None
    rank: int | None = None
    """the selected rank"""
    ranks: tuple[int, ...] = ()
    """lanes of the timeline, in order"""
    steps: tuple[int, int] | None = None
    """first and last step, both included"""
    against: tuple[int, int] | None = None
    """first and last step that the page Efficiency compares `steps` with, both included"""
    peak: str | None = None
    """peak of one device that the page Efficiency takes, 1e12 FLOP/s"""
    bandwidth: str | None = None
    """bandwidth of the memory of one device that the page Efficiency takes, 1e9 B/s"""
    t: tuple[int, int] | None = None
    """window of time, ns since the run's t0"""
    span: tuple[int, int, int, int] | None = None
    """selected span of the timeline: rank, row of the tile, begin and end, ns"""
    area: tuple[int, int, int, int] | None = None
    """selected area of the timeline: begin and end, ns, ranks of its first and last lane"""
    marks: tuple[int, ...] = ()
    """times marked on the timeline, ns since the run's t0"""
    pins: tuple[int, ...] = ()
    """lanes kept on top"""
    truth: bool = False
    """planted faults of generated runs are shown"""
    replay: int | None = None
    """step that the what-if page replays"""
    expert: tuple[int, ...] | None = None
    """selected expert: its layer (-1: without a number), its number in the layer, and the number of
    the router where the layer has several"""
    metric: str | None = None
    finding: str | None = None
    q: str | None = None
    """saved query"""
    sql: str | None = None
    args: tuple[tuple[str, str], ...] = ()
    """parameters of the saved query"""
    model: tuple[tuple[str, str], ...] = ()
    """state of the page Model: its own names and values"""
    fleet: tuple[tuple[str, str], ...] = ()
    """state of the page Fleet: its own names and values"""
    pipeline: tuple[tuple[str, str], ...] = ()
    """changes of the job whose schedules the page What-if predicts: its own names and values"""

    def url(self, base: str = "") -> str:
        """Path and query below `base`, with the fields that are set."""
        if self.run is None and self.page == FLEET:
            own = [(f"f.{name}", value) for name, value in self.fleet]
            return f"{base}/{FLEET}" + (f"?{_encoded(own)}" if own else "")
        if self.run is None:
            return f"{base}/"
        query = [
            (name, text)
            for name, (_, format_value) in _FIELDS.items()
            if (text := format_value(getattr(self, name)))
        ]
        for prefix, field in _ARGUMENTS.items():
            query += [(f"{prefix}.{name}", value) for name, value in getattr(self, field)]
        path = f"{base}/run/{quote(self.run, safe='')}/{self.page}"
        return f"{path}?{_encoded(query)}" if query else path

    def to(self, **changes: Any) -> View:
        """The same view with other values."""
        return replace(self, **changes)


def _encoded(query: list[tuple[str, str]]) -> str:
    return urlencode(query, quote_via=quote, safe=",.")


SHOWN_INSTEAD = "; the overview is shown instead."
"""How the sentence on an unknown page ends, for those who show nothing and name the pages."""

LINKS_FIELD = "The link's field "
"""How the sentence on a field begins, for those who have it from elsewhere."""


def parse_url(path: str, search: str = "", base: str = "") -> tuple[View, list[str]]:
    """View of a URL, and a sentence for each invalid part, which falls back to its default.

    An unknown path is the start page, with a sentence that names it.
    """
    parts = [part for part in path.removeprefix(base).split("/") if part]
    if parts == [FLEET]:
        return View(page=FLEET, fleet=_fleet(search)), []
    if len(parts) < 2 or parts[0] != "run":
        return View(), [f"There is no page {unquote(path)[:80]!r}."] if parts else []
    problems = []
    page = parts[2] if len(parts) > 2 else PAGE_NAMES[0]
    if page not in PAGE_NAMES:
        problems.append(f"There is no page {page[:40]!r}{SHOWN_INSTEAD}")
        page = PAGE_NAMES[0]
    values: dict[str, Any] = {"run": unquote(parts[1]), "page": page}
    arguments: dict[str, dict[str, str]] = {prefix: {} for prefix in _ARGUMENTS}
    for name, text in parse_qsl(search.removeprefix("?"), keep_blank_values=False):
        argument = _ARGUMENT.fullmatch(name)
        if argument:
            arguments[argument[1]][argument[2]] = text[:_LONGEST]
        elif name in _FIELDS:
            try:
                values[name] = _FIELDS[name][0](text)
            except ValueError as error:
                problems.append(f"{LINKS_FIELD}{name} cannot be used: {error}.")
    for prefix, field in _ARGUMENTS.items():
        values[field] = tuple(arguments[prefix].items())
    return View(**values), problems


def _fleet(search: str) -> tuple[tuple[str, str], ...]:
    """Values of the fields f.NAME; the last of two counts."""
    values: dict[str, str] = {}
    for name, text in parse_qsl(search.removeprefix("?"), keep_blank_values=False):
        argument = _ARGUMENT.fullmatch(name)
        if argument and argument[1] == "f":
            values[argument[2]] = text[:_LONGEST]
    return tuple(values.items())


def explain(view: View, run: Run, on_page: bool = False) -> list[str]:
    """A sentence for each attempt, rank or step in the link that the run lacks, with what it has.

    `on_page`: with what to do there. A rank of the job that has not reported yet is not an error.
    """
    return [text + advice if on_page else text for text, advice in _missing(view, run)]


def _missing(view: View, run: Run) -> list[tuple[str, str]]:
    """Sentences, each with one that says what to do on the page."""
    shown = {"metric": None, "finding": None, "q": None, "sql": None, "args": (), "model": ()}
    shown |= {"marks": (), "truth": False, "fleet": (), "pipeline": ()}
    if view.to(page="", **shown) == View(view.run, ""):
        return []
    attempts = {row["attempt"]: row for row in run.ask("run_summary").to_pylist()}
    if not attempts:
        return []
    newest = max(attempts)
    if view.attempt is not None and view.attempt not in attempts:
        has = f"attempts {min(attempts)} to {newest}" if len(attempts) > 1 else f"attempt {newest}"
        sentence = f"This run has no attempt {view.attempt}; it has {has}."
        return [(sentence, f" Remove attempt={view.attempt} from the link.")]
    row = attempts[newest if view.attempt is None else view.attempt]
    removed = _removed_steps(view, row, run)
    sentences = [*_missing_ranks(view, row, run), *(removed or _missing_steps(view, attempts))]
    ended_ns = row["ended_ns"]
    if view.t is not None and ended_ns is not None and run.info["clock"] == "absolute":
        t0_ns = run.info["created_ns"]
        lasts_ns, begins_ns = ended_ns - t0_ns, min(0, (row["started_ns"] or t0_ns) - t0_ns)
        if view.t[0] > lasts_ns or view.t[1] < begins_ns:
            sentence = "The link's window of time lies outside the run, which lasted "
            sentence += f"{lasts_ns / 1e9:.1f} s."
            sentences.append((sentence, " Press F on the timeline to see all of it."))
    return sentences


def _missing_ranks(view: View, row: dict[str, Any], run: Run) -> list[tuple[str, str]]:
    known = [info["rank"] for info in run.ranks if info["attempt"] == row["attempt"]]
    count = max(row["world_size"] or 0, max(known, default=-1) + 1)
    named = dict.fromkeys([*(() if view.rank is None else (view.rank,)), *view.ranks])
    missing = [rank for rank in named if rank >= count]
    if not count or not missing:
        return []
    what = "is no rank" if len(missing) == 1 else "are no ranks"
    text = format_ranks(missing)[:60]
    has = "rank 0 only" if count == 1 else f"{count} ranks, 0 to {count - 1}"
    sentence = f"There {what} {text} in attempt {row['attempt']}; it has {has}."
    return [(sentence, " Choose one on the Ranks page.")]


def _removed_steps(view: View, row: dict[str, Any], run: Run) -> list[tuple[str, str]]:
    """What retention (rankscope gc) took out of the steps of the link."""
    if view.steps is None:
        return []
    ranges = run.index_rows(
        "SELECT greatest(first_step, $first) AS first, least(last_step, $last) AS last"
        " FROM removed_steps WHERE attempt = $attempt"
        " AND first_step <= $last AND last_step >= $first ORDER BY ALL",
        attempt=row["attempt"],
        first=view.steps[0],
        last=view.steps[1],
    )
    if not ranges:
        return []
    text = steps_text(ranges[0]["first"], ranges[-1]["last"])
    between = " (some between them are kept)" if len(ranges) > 1 else ""
    return [(f"Old data was removed with rankscope gc: that of {text}{between}.", "")]


def _missing_steps(view: View, attempts: dict[int, dict[str, Any]]) -> list[tuple[str, str]]:
    rows = [attempts[view.attempt]] if view.attempt is not None else list(attempts.values())
    last = max((row["last_step"] for row in rows if row["last_step"] is not None), default=None)
    first = min((row["first_step"] for row in rows if row["first_step"] is not None), default=None)
    if view.steps is None or last is None or first is None:
        return []
    if first <= view.steps[1] and view.steps[0] <= last:
        return []
    first = max(first, 0)
    sentence = f"No data for {steps_text(*view.steps)}: this run has {steps_text(first, last)}."
    return [(sentence, " Double-click the step-time strip above to see all steps.")]


def _whole(text: str) -> int:
    if not _INTEGER.fullmatch(text) or abs(int(text)) >= SAFEST:
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


def _natural(text: str) -> int:
    value = _whole(text)
    if value < 0:
        raise ValueError(f"{text[:40]!r} is below 0")
    return value


def _ranks(text: str) -> tuple[int, ...]:
    ranks: dict[int, None] = {}
    for part in text.split(","):
        low_text, dash, high_text = part.partition("-")
        low = _natural(low_text)
        high = _natural(high_text) if dash else low
        if high < low or high - low >= MOST_RANKS or len(ranks) + high - low >= MOST_RANKS:
            raise ValueError(f"{part[:40]!r} is not a list of at most {MOST_RANKS} ranks")
        ranks.update(dict.fromkeys(range(low, high + 1)))
    return tuple(ranks)


def _pair(text: str) -> tuple[int, int]:
    low_text, dots, high_text = text.partition("..")
    low, high = _whole(low_text), _whole(high_text) if dots else _whole(low_text)
    if high < low:
        raise ValueError(f"{text[:40]!r} ends before it begins")
    return low, high


def _span(text: str) -> tuple[int, int, int, int]:
    rank, row, times = _parts(text, 3)
    if _natural(row) > _LAST_ROW:
        raise ValueError(f"{text[:40]!r} names no row from 0 to {_LAST_ROW}")
    return _natural(rank), _natural(row), *_pair(times)


def _area(text: str) -> tuple[int, int, int, int]:
    times, first, last = _parts(text, 3)
    return *_pair(times), _natural(first), _natural(last)


def _parts(text: str, number: int) -> list[str]:
    parts = text.split(",")
    if len(parts) != number:
        raise ValueError(f"{text[:40]!r} does not have {number} parts")
    return parts


def _expert(text: str) -> tuple[int, ...]:
    layer, *numbers = _parts(text, 3 if text.count(",") == 2 else 2)
    return -1 if layer == "-1" else _natural(layer), *map(_natural, numbers)


def _times(text: str) -> tuple[int, ...]:
    times = tuple(dict.fromkeys(map(_whole, text.split(","))))
    if len(times) > _MOST_MARKS:
        raise ValueError(f"there are more than {_MOST_MARKS} times")
    return times


def peak_of(text: str) -> float | None:
    """Value of the field `peak` or `bandwidth`, None of an empty one; raises ValueError."""
    if text and not (_PEAK.fullmatch(text) and float(text)):
        raise ValueError(f"{text[:40]!r} is not a number above 0, such as 989 or 0.5")
    return float(text) if text else None


def _peak(text: str) -> str:
    peak_of(text)
    return text


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(f"{text[:40]!r} is neither 0 nor 1")
    return text == "1"


def _name(text: str) -> str:
    if not re.fullmatch(r"[\w.:/ -]{1,120}", text):
        raise ValueError(f"{text[:40]!r} is not a name")
    return text


def _text(text: str) -> str:
    return text[:_LONGEST]


def _plain(value: object) -> str:
    return "" if value is None else str(value)


def format_ranks(ranks: Iterable[int]) -> str:
    """Ranks as in a URL: consecutive ranks become `0-7`; keeps the order."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)


def _format_pair(pair: tuple[int, int] | None) -> str:
    return "" if pair is None else f"{pair[0]}..{pair[1]}"


def _format_expert(expert: tuple[int, ...] | None) -> str:
    return "" if expert is None else ",".join(map(str, expert))


def _format_span(span: tuple[int, int, int, int] | None) -> str:
    return "" if span is None else f"{span[0]},{span[1]},{span[2]}..{span[3]}"


def _format_area(area: tuple[int, int, int, int] | None) -> str:
    return "" if area is None else f"{area[0]}..{area[1]},{area[2]},{area[3]}"


_FIELDS: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    "attempt": (_natural, _plain),
    "rank": (_natural, _plain),
    "ranks": (_ranks, format_ranks),
    "steps": (_pair, _format_pair),
    "against": (_pair, _format_pair),
    "peak": (_peak, _plain),
    "bandwidth": (_peak, _plain),
    "t": (_pair, _format_pair),
    "span": (_span, _format_span),
    "area": (_area, _format_area),
    "marks": (_times, lambda times: ",".join(map(str, times))),
    "pins": (_ranks, format_ranks),
    "truth": (_flag, lambda flag: "1" if flag else ""),
    "replay": (_natural, _plain),
    "expert": (_expert, _format_expert),
    "metric": (_name, _plain),
    "finding": (_name, _plain),
    "q": (_name, _plain),
    "sql": (_text, _plain),
}
assert set(_FIELDS) | {"run", "page", *_ARGUMENTS.values()} == {
    field.name for field in fields(View)
}
