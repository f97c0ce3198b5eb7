"""The few changes of machines that the overview states: those that show a fault by themselves.

Of each device the most telling one; the same change of several devices at the same time is one
sentence. What most hosts do with one step (the end of the job) is no change of a machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.views.machines.changes import (
    MOST_CHANGES,
    TELLING,
    changed_rows,
    changes,
    ranks_of_device,
    ranks_of_devices,
    sentence,
    unreadable,
)
from diagnosis.hardware_causes import SIGNS, Sign
from ingest.run import Run
from ingest.stopping import Stop

MOST_SENTENCES = 4
TIME_LIMIT_S = 20.0
"""The overview goes without, and says so, where the question takes longer."""

MOST_SAMPLES = 2_000_000
"""Of more, all metrics take too long to search: 9 s of CPU for 4 million."""

_MOST_ROWS = 20_000
_AS_IN_S = 10.0
"""A counter that stood still must rise by as much as its sign's rate gives in this time."""
_MOST_HOSTS, _FEW_HOSTS = 0.5, 3

_NEAR_NS = 60 * 10**9
"""Noisy levels that change within it change together: medians of ten samples, five seconds apart
or less, show when to some samples.
"""

Row = Mapping[str, Any]
_SIGN_OF = {name: number for number, sign in enumerate(SIGNS) for name in sign.metrics}


def telling_changes(run: Run, attempt: int, stop: Stop | None = None) -> dict[str, Any]:
    """`changes`: sentences with step and ranks, the most telling first; `more`: how many are left
    out. Raises UserError, also where it takes longer than TIME_LIMIT_S.
    """
    options = {"limit": _MOST_ROWS, "limit_s": TIME_LIMIT_S, "stop": stop}
    rows = changed_rows(run, attempt, TELLING, options)
    groups = groups_of(rows, len({info["host"] for info in run.ranks}))
    ranks = ranks_of_devices(run, attempt)
    shown = [
        {
            "text": _text(group, ranks_of_device(group[0], ranks)),
            "step": group[0]["step"],
            "ranks": ranks_of_device(group[0], ranks),
        }
        for group in groups[:MOST_SENTENCES]
    ]
    return {"changes": shown, "more": len(groups) - len(shown)}


def changes_answer(
    run: Run, attempt: int, stop: Stop | None = None, most: int = MOST_CHANGES
) -> dict[str, Any]:
    """`changes` and `unreadable` for the page; `is_part`: only TELLING metrics were searched."""
    asked = "SELECT sum(num_rows) AS n FROM files WHERE table_name = 'host_metrics'"
    is_part = int(run.index_rows(asked)[0]["n"] or 0) > MOST_SAMPLES
    return {
        "changes": changes(run, attempt, stop, TELLING if is_part else None)[:most],
        "is_part": is_part,
        "unreadable": unreadable(run, attempt, stop),
    }


def groups_of(rows: Sequence[Row], num_hosts: int) -> list[list[Row]]:
    """Telling rows of one metric and step together, the most telling first."""
    of_device: dict[tuple[str, str], Row] = {}
    for row in sorted(filter(is_telling, rows), key=_order):
        of_device.setdefault((row["host"], row["device"]), row)
    most = max(_MOST_HOSTS * num_hosts, _FEW_HOSTS)
    groups = _together(sorted(of_device.values(), key=_order))
    own = [group for group in groups if len({row["host"] for row in group}) <= most]
    return sorted(own, key=lambda group: _order(group[0]))


def _together(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows, in order, by metric and step; noisy levels, whose step is less exact, by time."""
    groups: list[list[Row]] = []
    newest: dict[tuple[str, int | None], list[Row]] = {}
    for row in rows:
        is_level = row["kind"] == "level"
        key = row["metric"], None if is_level else row["step"]
        group = newest.get(key)
        if group is None or (is_level and row["ts_ns"] - group[0]["ts_ns"] > _NEAR_NS):
            group = newest[key] = []
            groups.append(group)
        group.append(row)
    return groups


def is_telling(row: Row) -> bool:
    """Whether the change shows a fault by itself."""
    if row["metric"] not in _SIGN_OF:
        return False
    sign: Sign = SIGNS[_SIGN_OF[row["metric"]]]
    before, after = row["before"], row["after"]
    if sign.way == "falls":
        return bool(after < (1 - sign.least) * before)
    if sign.way == "bits":
        return bool(int(after) & ~int(before) & ~1)  # not idleness
    least = sign.least * (_AS_IN_S if row["kind"] == "count" else 1.0)
    return bool(after - before >= least)


def _order(row: Row) -> tuple[int, int, str, str]:
    return _SIGN_OF[row["metric"]], row["step"], row["host"], row["device"]


def _text(group: Sequence[Row], ranks: Sequence[int]) -> str:
    more = len(group) - 1
    also = f" (and that of {more:,} other device{'s' if more > 1 else ''})" if more else ""
    return sentence(group[0], ranks) + also
