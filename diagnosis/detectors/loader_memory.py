"""loader_memory: workers of data loaders take more and more memory.

A worker's memory is compared over three parts of the time: what grows from the first to the second
and as much again to the third does not level off. Resident memory shows what a dataset keeps. Only
where pages that processes share are divided among them do the copies show that forked workers make
of the dataset's objects by touching them.

Source: the usual leaks of loaders (caches without a bound, Python objects touched by forked
workers, pytorch issue 13246). Assumes: a job of some minutes. Known false positives: a cache that
levels off later. Blind spots: growth below LEAST_MB; fewer than FEWEST looks. Cost: a small table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Place, Verdict

NAME = "loader_memory"
KINDS = ("loader_memory",)
QUESTIONS = ("loader_memory",)

FEWEST = 6
"""Looks at a worker."""

LEAST_MB, LEAST_SHARE = 64.0, 0.25
"""Growth that is worth a word, and as a part of what the worker had."""

LEVELS_OFF = 0.5
"""Growth that falls to less than this part of what it was before may stop by itself."""

SOON_S = 3600.0


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the whole attempt; None where no loader has workers."""
    rows = tables["loader_memory"].to_pylist()
    if not rows:
        return None
    seen = [row for row in rows if row["samples"] >= FEWEST and None not in _levels(row)]
    if not seen:
        reason = f"No worker of a data loader was looked at {FEWEST} times."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    growing = {(row["rank"], row["pid"]): row for row in seen if _grows(row)}
    num_workers = len({(row["rank"], row["pid"]) for row in seen})
    if not growing:
        return Verdict(NAME, checked=f"None of {num_workers} workers of data loaders grows.")
    return Verdict(NAME, (_finding(list(growing.values()), num_workers, attempt),))


def _levels(row: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return row["begin_mb"], row["middle_mb"], row["end_mb"]


def _grows(row: Mapping[str, Any]) -> bool:
    begin, middle, end = _levels(row)
    least = max(LEAST_MB, LEAST_SHARE * begin)
    return bool(end - begin >= least and end - middle >= LEVELS_OFF * (middle - begin) > 0)


def _rate(row: Mapping[str, Any]) -> float:
    """MB a second: the thirds' medians lie two thirds of the time apart."""
    return float((row["end_mb"] - row["begin_mb"]) / max(row["seconds"] * 2 / 3, 1e-9))


def _finding(growing: list[dict[str, Any]], num_workers: int, attempt: int) -> Finding:
    ranks = sorted({row["rank"] for row in growing})
    worst = max(growing, key=_rate)
    is_all = len(growing) == num_workers > 1
    who = f"All {num_workers} workers" if is_all else _who(growing)
    per_min = 60 * sum(map(_rate, growing)) / len(growing)
    left_s = _left_s(growing)
    soon = (
        "" if left_s is None else f" At this rate the memory of a host is used up in {_in(left_s)}."
    )
    is_one = len(growing) == 1
    title = f"{who} of data loaders {'grows' if is_one else 'grow'}"
    text = f"{who} {'takes' if is_one else 'take'} {per_min:.0f} MB more each minute.{soon}"
    return Finding(
        kind="loader_memory",
        attempt=attempt,
        severity="urgent" if left_s is not None and left_s < SOON_S else "warning",
        confidence="medium",
        title=title,
        text=text,
        culprits=() if is_all else tuple(Place(rank) for rank in ranks),
        first_step=max(min(row["first_step"] for row in growing), 0),
        last_step=max(max(row["last_step"] for row in growing), 0),
        ongoing=True,
        evidence=(
            Evidence(
                f"Worker {worst['worker']} of rank {worst['rank']} had {worst['begin_mb']:.0f}, "
                f"then {worst['middle_mb']:.0f}, then {worst['end_mb']:.0f} MB, over "
                f"{worst['seconds']:.0f} s.",
                worst["end_mb"],
                "MB",
                "loader_memory",
                (("attempt", attempt),),
            ),
        ),
        alternatives=("A cache of the dataset that has a bound and levels off later.",),
        next_step=(
            "Look for what the dataset keeps (caches, lists that grow, open files); keep large "
            "tables of Python objects in arrays, which forked workers do not copy."
        ),
        cause=f"{title}: the dataset keeps what it has read.",
    )


def _who(growing: list[dict[str, Any]]) -> str:
    row = growing[0]
    if len(growing) == 1:
        return f"Worker {row['worker']} of rank {row['rank']}"
    ranks = {row["rank"] for row in growing}
    of = f" of rank {row['rank']}" if len(ranks) == 1 else f" of {len(ranks)} ranks"
    return f"{len(growing)} workers{of}"


def _left_s(growing: list[dict[str, Any]]) -> float | None:
    """Until the first host has no memory left; None where that is not recorded."""
    by_host: dict[str, list[dict[str, Any]]] = {}
    for row in growing:
        if row["host"] and row["free_mb"] is not None:
            by_host.setdefault(row["host"], []).append(row)
    left = [rows[0]["free_mb"] / sum(map(_rate, rows)) for rows in by_host.values()]
    return min(left, default=None)


def _in(seconds: float) -> str:
    if seconds < 2 * 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 2 * 3600 else f"{seconds / 3600:.0f} hours"
