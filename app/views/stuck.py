"""Where every rank of a job that makes no progress stands: who waits for whom, stacks, commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from app.views.stuck_checked import heard_ns, what_was_checked
from app.views.stuck_commands import commands_of
from app.views.stuck_requests import request_rows
from app.views.stuck_stacks import grid_rows, groups_as_plain, merged_stacks, stack_groups
from app.views.stuck_tree import blamed, wait_circles, wait_tree
from diagnosis.stuck.causes import cause_of
from diagnosis.stuck.evidence import ENTERED, QUESTIONS, Evidence, Look, evidence_of
from diagnosis.stuck.stacks import UNKNOWN, users_frame
from diagnosis.stuck.text import named, status_of, waits_text
from diagnosis.stuck.waiting import Wait, Waiting, waiting_of
from ingest.run import Run
from ingest.stopping import Stop

MOST_RANKS = 256
"""Rows of the table of ranks: those that are waited for first."""
MOST_WAITS = 50
_MOST_REASONS = 4


@dataclass(frozen=True)
class Stuck:
    """Plain values of the page. `state`: stuck, moved (ranks went on again), ended or none.

    `at_ns`: of the last look, `since_ns`: when the wait of the status began, `heard_ns`: of the
    newest sign of a rank; Unix ns, None where there is none. `tree`: ranks at the roots with those
    that wait for them, nested; `circles`: ranks that wait for each other. `reasons`: what the ranks
    that are waited for do. `stacks`: groups of equal ones, `merged`: all as one tree, `grid`: rows
    of the grid with the index of the group. `checked`: what was looked at. `commands`: to copy,
    with what they are for. `requests`: the open ones of each group, with who has posted them.
    `lines`: the last of each rank's log. `is_over`: every rank has ended.
    """

    state: str
    status: str
    at_ns: int | None
    since_ns: int | None = None
    heard_ns: int | None = None
    checked: str = ""
    reasons: tuple[str, ...] = ()
    waits: tuple[dict[str, Any], ...] = ()
    tree: tuple[dict[str, Any], ...] = ()
    circles: tuple[tuple[dict[str, Any], ...], ...] = ()
    stacks: tuple[dict[str, Any], ...] = ()
    num_stacks: int = 0
    merged: tuple[dict[str, Any], ...] = ()
    grid: tuple[dict[str, Any], ...] = ()
    ranks: tuple[dict[str, Any], ...] = ()
    num_ranks: int = 0
    commands: tuple[dict[str, str], ...] = ()
    requests: tuple[dict[str, Any], ...] = ()
    lines: tuple[dict[str, Any], ...] = ()
    is_over: bool = False


def stuck_of(run: Run, attempt: int | None, stop: Stop | None = None) -> Stuck:
    """What is known of the ranks of an attempt (None: the newest)."""
    wanted = run.newest_attempt if attempt is None else attempt
    lines = last_lines(run.ask("last_log_lines", attempt=wanted, stop=stop))
    return replace(_without_lines(run, wanted, stop), lines=tuple(lines))


def last_lines(table: pa.Table) -> list[dict[str, Any]]:
    """The last lines of ranks and hosts, in the order of time; equal ones with all their ranks."""
    return [
        {
            "who": named([rank for rank in row["ranks"] if rank >= 0]) or row["host"] or "host",
            "ranks": [rank for rank in row["ranks"] if rank >= 0],
            "at_s": None if row["ts_ns"] is None else row["ts_ns"] / 1e9,
            "where": f"{row['file']}:{row['line']}",
            **{name: row[name] for name in ("level", "label", "text")},
        }
        for row in table.to_pylist()
    ]


def _without_lines(run: Run, wanted: int, stop: Stop | None) -> Stuck:
    tables = {
        name: run.ask(name, attempt=wanted, stop=stop) for name in QUESTIONS if name != ENTERED
    }
    source = str(run.info["source"])
    if not tables["rank_looks"].num_rows and _has_steps(run, wanted):
        signs = tables["last_signs"]
        checked = what_was_checked(source, signs, tables["rank_places"].num_rows)
        state = "ended" if _have_ended(signs) else "none"
        return Stuck(state, "", None, heard_ns=heard_ns(signs), checked=checked)
    tables[ENTERED] = run.ask(ENTERED, attempt=wanted, stop=stop)
    return of_tables(tables, source)


def _has_steps(run: Run, attempt: int) -> bool:
    text = "SELECT 1 FROM step_rollup WHERE attempt = $attempt AND finished LIMIT 1"
    return bool(run.index_rows(text, attempt=attempt))


def _have_ended(signs: pa.Table) -> bool:
    """Whether every rank says itself how it ended; rows of last_signs."""
    return bool(signs.num_rows) and None not in signs.column("status").to_pylist()


def of_tables(tables: Mapping[str, pa.Table], source: str = "hooks") -> Stuck:
    """From the answers of the saved queries; `source`: what the run was made of."""
    evidence = evidence_of(tables)
    waiting = waiting_of(evidence)
    first = _first(waiting)
    groups = stack_groups(evidence.looks)
    return Stuck(
        _state(evidence, waiting),
        status_of(waiting, evidence),
        evidence.at_ns,
        since_ns=first.since_ns if first and evidence.at_ns is not None else None,
        heard_ns=heard_ns(tables["last_signs"]),
        checked=what_was_checked(
            source, tables["last_signs"], len(evidence.ranks), len(evidence.looks)
        ),
        reasons=tuple(_reasons(evidence, waiting)),
        waits=tuple(
            _wait(wait, evidence)
            for wait in (*waiting.waits, *waiting.unclear, *waiting.complete)[:MOST_WAITS]
        ),
        tree=wait_tree(waiting, evidence),
        circles=wait_circles(waiting, evidence),
        stacks=groups_as_plain(groups),
        num_stacks=len(groups),
        merged=merged_stacks(evidence.looks),
        grid=grid_rows(groups, tables["rank_places"]) if groups else (),
        ranks=tuple(_ranks(evidence, waiting))[:MOST_RANKS],
        num_ranks=len(evidence.ranks),
        commands=commands_of(evidence, waiting),
        requests=request_rows(evidence),
        is_over=evidence.is_over,
    )


def _first(waiting: Waiting) -> Wait | None:
    """The wait that the status is about."""
    return waiting.shown_first()


def _state(evidence: Evidence, waiting: Waiting) -> str:
    if evidence.has_moved:
        return "moved"
    statuses = {signs.status for signs in evidence.signs.values()}
    if statuses == {"finished"}:
        return "ended"
    return "stuck" if waiting.shown_first() else "none"


def _reasons(evidence: Evidence, waiting: Waiting) -> Iterable[str]:
    """What keeps the ranks at the roots, as far as it can be seen."""
    for rank in waiting.roots[:_MOST_REASONS]:
        look = evidence.looks.get(rank)
        if look is not None and (look.stack or look.process not in ("R", "S", "D")):
            yield f"Rank {rank}: {cause_of(rank, evidence).how}."


def _wait(wait: Wait, evidence: Evidence) -> dict[str, Any]:
    return {
        "text": waits_text(wait, evidence),
        "waiting": list(wait.waiting),
        "awaited": list(wait.awaited),
        "since_ns": wait.since_ns,
    }


def _ranks(evidence: Evidence, waiting: Waiting) -> Iterable[dict[str, Any]]:
    """Rows of the table: roots first, then who waits, then all others."""
    waits = {
        rank: wait
        for wait in reversed((*waiting.waits, *waiting.complete))
        for rank in wait.waiting
    }
    awaited = {rank for wait in waiting.waits for rank in wait.awaited}
    roots = blamed(waiting, evidence) or {rank for cycle in waiting.cycles for rank in cycle}

    def order(rank: int) -> tuple[int, int]:
        return (0 if rank in roots else 1 if rank in awaited else 2 if rank in waits else 3, rank)

    for rank in sorted(evidence.ranks, key=order):
        look, wait = evidence.looks.get(rank), waits.get(rank)
        number = f" {wait.seq:,}" if wait and wait.seq >= 0 else ""
        in_op = f"{wait.op}{number}" if wait else ""
        role = "awaited" if rank in roots else "waits" if wait else ""
        yield {"rank": rank, "role": role, "in": in_op, **_of_look(look)}


def _seconds(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms / 1e3, 1)


def _of_look(look: Look | None) -> dict[str, Any]:
    if look is None:
        return dict.fromkeys(("host", "process", "phase", "step", "beat_s", "quiet_s", "frame"))
    return {
        "host": look.host,
        "process": look.process,
        "phase": look.phase,
        "step": look.step,
        "beat_s": _seconds(look.beat_age_ms),
        "quiet_s": _seconds(look.quiet_ms),
        "frame": users_frame(look.stack) or UNKNOWN,
    }
