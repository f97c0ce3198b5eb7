"""The table of ranks: one row each, sorted and paged on the server.

12,288 rows are joined once per set of steps and cached by the caller; a page is 50 of them.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from app.views.ranks.grid import Grid
from app.views.ranks.scales import IN_NOISE
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

PAGE_ROWS = 50


@dataclass(frozen=True)
class RankRow:
    """Means over some steps, ms per step; None unknown."""

    rank: int
    host: str
    pp: int | None
    dp: int | None
    cp: int | None
    tp: int | None
    slowdown: float | None
    """median against the peers, x"""
    beyond_noise: bool | None
    step_ms: float | None
    compute_ms: float | None
    exposed_comm_ms: float | None
    data_wait_ms: float | None
    bubble_ms: float | None
    wait_ms: float | None
    wait_caused_ms: float | None
    """rank-ms, in groups within one pipeline stage"""


SORTABLE = (*(field.name for field in fields(RankRow)), "state")


def rank_rows(
    run: Run,
    attempt: int | None,
    steps: tuple[int, int],
    slowdowns: Grid,
    stop: Stop | None = None,
) -> list[RankRow]:
    """A row for every rank of the attempt, including those without a finished step.

    `slowdowns`: the grid of that metric over the same steps.
    """
    window = {"step_min": steps[0], "step_max": steps[1], "attempt": attempt, "stop": stop}
    means = _by_rank(run, "grid", **window)
    slow = _slowdowns(slowdowns)
    late = _by_rank(run, "rank_waits", **window)
    return [
        _row(place, means.get(rank, {}), slow.get(rank, {}), late.get(rank, {}))
        for rank, place in _by_rank(run, "rank_list", attempt=attempt, stop=stop).items()
    ]


def _slowdowns(grid: Grid) -> dict[int, dict[str, Any]]:
    beyond_R = grid.code_R > IN_NOISE
    values = zip(grid.places.rank_R.tolist(), grid.value_R.tolist(), beyond_R.tolist(), strict=True)
    return {
        rank: {"slowdown": value, "beyond_noise": beyond and value > 1}
        for rank, value, beyond in values
        if not math.isnan(value)
    }


def _by_rank(run: Run, question: str, **params: Any) -> dict[int, dict[str, Any]]:
    return {row["rank"]: row for row in run.ask(question, **params).to_pylist()}


def _row(
    place: dict[str, Any], mean: dict[str, Any], slow: dict[str, Any], late: dict[str, Any]
) -> RankRow:
    return RankRow(
        place["rank"],
        place["host"],
        place["pp"],
        place["dp"],
        place["cp"],
        place["tp"],
        slow.get("slowdown"),
        slow.get("beyond_noise"),
        mean.get("step_ms"),
        mean.get("compute_ms"),
        mean.get("exposed_comm_ms"),
        mean.get("data_wait_ms"),
        mean.get("bubble_ms"),
        late.get("wait_ms"),
        late.get("wait_caused_ms"),
    )


_FILTER = re.compile(r"(rank|pp|dp|cp|tp)\s*[=: ]?\s*(\d{1,9})(?:-(\d{1,9}))?", re.I)


def matches(row: RankRow, text: str) -> bool:
    """Whether a row matches every word: `777`, `rank=0-7`, `pp=3`, or a part of the host's name."""
    return all(_matches_word(row, word) for word in text.lower().replace(",", " ").split())


def _matches_word(row: RankRow, word: str) -> bool:
    named = _FILTER.fullmatch(word)
    if named is None:
        return row.rank == int(word) if word.isdecimal() else word in row.host.lower()
    value = getattr(row, named[1].lower())
    low = int(named[2])
    return value is not None and low <= value <= int(named[3] or low)


def page(
    rows: list[RankRow],
    states: dict[int, str],
    sort: str = "slowdown",
    direction: str = "desc",
    text: str = "",
    number: int = 0,
    find: int | None = None,
) -> dict[str, Any]:
    """One page of the matching rows, sorted; unknown values last. `find`: the page with this rank.

    Raises UserError for an unknown column.
    """
    if sort not in SORTABLE or direction not in ("asc", "desc"):
        raise UserError(f"the table cannot be sorted by {sort[:40]!r}; give {', '.join(SORTABLE)}")
    fitting = [row for row in rows if matches(row, text)]

    def value(row: RankRow) -> Any:
        return states.get(row.rank) if sort == "state" else getattr(row, sort)

    known = [row for row in fitting if value(row) is not None]
    known.sort(key=lambda row: row.rank)
    known.sort(key=value, reverse=direction == "desc")
    ordered = known + [row for row in fitting if value(row) is None]
    if find is not None:
        index = next((i for i, row in enumerate(ordered) if row.rank == find), 0)
        number = index // PAGE_ROWS
    last = max(0, (len(ordered) - 1) // PAGE_ROWS)
    number = min(number, last)
    shown = ordered[number * PAGE_ROWS : (number + 1) * PAGE_ROWS]
    return {
        "rows": [asdict(row) | {"state": states.get(row.rank)} for row in shown],
        "page": number,
        "num_pages": last + 1,
        "num_rows": len(ordered),
        "num_ranks": len(rows),
    }
