"""What the page Fleet shows: of the chosen runs the sums and one page of the table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from app.analysis.fleet.board import Standing
from app.analysis.fleet.text import bin_text, cause_text, host_text
from diagnosis.fleet.fleet import Fleet, fleet
from diagnosis.fleet.hosts import BY_CHANCE, FEWEST_RUNS
from diagnosis.fleet.summary import Summary
from diagnosis.fleet.totals import STRAGGLING_S, lost_hours
from diagnosis.statistics.natural_order import natural
from ingest.errors import UserError

PAGE_ROWS = 100
MOST_CHOICES = 1000
"""Models and hosts that are offered; any other can be typed."""
MOST_POINTS = 2000
"""Runs in the chart of MFU: the newest ones."""
NOT_RECORDED = "not recorded"
"""Stands for the model of runs that did not record one."""


@dataclass(frozen=True)
class Choice:
    """Which runs, in which order. Texts are empty and dates None where nothing is chosen."""

    model: str = ""
    host: str = ""
    first: date | None = None
    last: date | None = None
    sort: str = "lost"
    descending: bool = True
    page: int = 0

    @property
    def is_of_all(self) -> bool:
        """Whether no run is left out."""
        return not (self.model or self.host or self.first or self.last)

    def takes(self, run: Summary) -> bool:
        """Whether a run is chosen; with dates, those without a known start are not."""
        if self.model and self.model != (run.model or NOT_RECORDED):
            return False
        if self.host and self.host not in run.hosts:
            return False
        if self.first is None and self.last is None:
            return True
        day = _day(run.started_ns)
        return (
            day is not None
            and (self.first is None or day >= self.first)
            and (self.last is None or day <= self.last)
        )


def date_of(name: str, text: str) -> date | None:
    """A date YYYY-MM-DD, None for no text; raises UserError."""
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UserError(f"{name} is {text[:40]!r}; give a date such as 2026-03-31") from None


def _day(time_ns: int | None) -> date | None:
    return None if time_ns is None else datetime.fromtimestamp(time_ns // 10**9, UTC).date()


def shown(standing: Standing, choice: Choice) -> dict[str, Any]:
    """Plain values for the page; raises UserError for an unknown column."""
    runs = {name: run for name, run in standing.summaries.items() if choice.takes(run)}
    made = fleet(runs, standing.hosts)
    rows, num_pages = _rows(runs, choice)
    return {
        "fleet": _with_words(made),
        "straggling": STRAGGLING_S,
        "by_chance": BY_CHANCE,
        "fewest_runs": FEWEST_RUNS,
        "rows": rows,
        "page": min(choice.page, num_pages - 1),
        "num_pages": num_pages,
        "points": _points(runs),
        "models": _models(standing),
        "hosts": _hosts(standing),
        "num_all": len(standing.summaries),
        "has_looked": standing.has_looked,
        "num_missing": standing.num_missing,
        "current": standing.current,
        "num_elsewhere": standing.num_elsewhere,
        "problems": [{"run": name, "why": why} for name, why in sorted(standing.problems.items())],
    }


def _with_words(made: Fleet) -> dict[str, Any]:
    """The fleet with the words of the command line for bins, causes and hosts."""
    plain = made.to_json()
    for one, own in zip(plain["slowdowns"]["bins"], made.slowdowns.bins, strict=True):
        one["text"] = bin_text(own)
    for one in plain["causes"]:
        one["text"] = cause_text(one["cause"])
    for one, named in zip(plain["hosts"]["named"], made.hosts.named, strict=True):
        one["text"] = host_text(named)
    return plain


def _row(name: str, run: Summary) -> dict[str, Any]:
    lost = sum(lost_hours(run).values()) if run.rank_hours is not None else None
    first = run.findings[0] if run.findings else None
    return {
        "run": name,
        "started_ms": None if run.started_ns is None else run.started_ns // 10**6,
        "model": run.model,
        "layout": run.layout,
        "ranks": run.num_ranks,
        "hosts": len(run.hosts),
        "steps": run.num_steps,
        "step_ms": run.step_ms,
        "mfu": run.mfu,
        "goodput": run.goodput,
        "S": run.S,
        "no_S": run.no_S,
        "hours": run.rank_hours,
        "lost": lost,
        "share": lost / run.rank_hours if lost is not None and run.rank_hours else None,
        "judged": run.judged,
        "num_findings": len(run.findings),
        "finding": None if first is None else {"id": first.id, "title": first.title},
    }


SORTS = (
    *("run", "started_ms", "model", "ranks", "hosts", "steps", "step_ms", "mfu", "goodput"),
    *("S", "hours", "lost", "share", "num_findings"),
)
"""Columns by which the table can be sorted."""


def _rows(runs: dict[str, Summary], choice: Choice) -> tuple[list[dict[str, Any]], int]:
    """One page of the table, and how many there are; what is unknown comes last."""
    if choice.sort not in SORTS:
        raise UserError(f"sort is {choice.sort[:40]!r}; it is one of {', '.join(SORTS)}")
    rows = [_row(name, run) for name, run in sorted(runs.items())]
    known = [row for row in rows if row[choice.sort] not in (None, "")]
    known.sort(key=lambda row: row[choice.sort], reverse=choice.descending)
    rows = known + [row for row in rows if row[choice.sort] in (None, "")]
    num_pages = max(1, -(-len(rows) // PAGE_ROWS))
    first = min(choice.page, num_pages - 1) * PAGE_ROWS
    return rows[first : first + PAGE_ROWS], num_pages


def _points(runs: dict[str, Summary]) -> list[dict[str, Any]]:
    """Runs whose MFU and size of the model are known."""
    known = [
        (name, run)
        for name, run in runs.items()
        if run.mfu is not None and run.parameters is not None
    ]
    known.sort(key=lambda item: -(item[1].started_ns or 0))
    return [
        {"run": name, "parameters": run.parameters, "mfu": run.mfu, "ranks": run.num_ranks}
        for name, run in known[:MOST_POINTS]
    ]


def _models(standing: Standing) -> list[str]:
    named = {run.model or NOT_RECORDED for run in standing.summaries.values()}
    return sorted(named)[:MOST_CHOICES]


def _hosts(standing: Standing) -> list[str]:
    named = {host for run in standing.summaries.values() for host in run.hosts}
    return sorted(named, key=natural)[:MOST_CHOICES]
