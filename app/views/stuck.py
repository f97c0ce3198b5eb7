"""Where every rank of a job that makes no progress stands: who waits for whom, stacks, commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from diagnosis.stuck.evidence import ENTERED, QUESTIONS, Evidence, Look, evidence_of
from diagnosis.stuck.stacks import UNKNOWN, alike, users_frame
from diagnosis.stuck.text import named, status_of, waits_text
from diagnosis.stuck.waiting import Wait, Waiting, waiting_of
from ingest.run import Run
from ingest.stopping import Stop

MOST_RANKS = 256
"""Rows of the table of ranks: those that are waited for first."""
MOST_WAITS = 50
_MOST_IN_TREE = 64


@dataclass(frozen=True)
class Stuck:
    """Plain values of the page. `state`: stuck, moved (ranks went on again), ended or none.

    `at_ns`: of the last look, Unix ns; None where nobody looked. `tree`: ranks at the roots with
    those that wait for them, nested. `commands`: to copy, with what they are for. `lines`: the last
    of each rank's log.
    """

    state: str
    status: str
    at_ns: int | None
    waits: tuple[dict[str, Any], ...] = ()
    tree: tuple[dict[str, Any], ...] = ()
    stacks: tuple[dict[str, Any], ...] = ()
    ranks: tuple[dict[str, Any], ...] = ()
    num_ranks: int = 0
    commands: tuple[dict[str, str], ...] = ()
    lines: tuple[dict[str, Any], ...] = ()


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
    if not tables["rank_looks"].num_rows and _has_steps(run, wanted):
        return Stuck("none", "", None)
    tables[ENTERED] = run.ask(ENTERED, attempt=wanted, stop=stop)
    return of_tables(tables)


def _has_steps(run: Run, attempt: int) -> bool:
    text = "SELECT 1 FROM step_rollup WHERE attempt = $attempt AND finished LIMIT 1"
    return bool(run.index_rows(text, attempt=attempt))


def of_tables(tables: Mapping[str, pa.Table]) -> Stuck:
    """From the answers of the saved queries."""
    evidence = evidence_of(tables)
    waiting = waiting_of(evidence)
    frames = {rank: look.stack for rank, look in evidence.looks.items()}
    groups = alike(frames)
    return Stuck(
        _state(evidence, waiting),
        status_of(waiting, evidence),
        evidence.at_ns,
        tuple(_wait(wait, evidence) for wait in (*waiting.waits, *waiting.complete)[:MOST_WAITS]),
        tuple(_branch(rank, waiting, {rank}) for rank in waiting.roots[:_MOST_IN_TREE]),
        tuple(
            {
                "ranks": named(one.ranks),
                "num_ranks": len(one.ranks),
                "activity": one.activity,
                "where": users_frame(one.frames),
                "frames": list(one.frames),
            }
            for one in groups
        ),
        tuple(_ranks(evidence, waiting))[:MOST_RANKS],
        len(evidence.ranks),
        tuple(_commands(evidence, waiting)),
    )


def _state(evidence: Evidence, waiting: Waiting) -> str:
    if evidence.has_moved:
        return "moved"
    statuses = {signs.status for signs in evidence.signs.values()}
    if statuses == {"finished"}:
        return "ended"
    return "stuck" if waiting.waits or waiting.complete else "none"


def _wait(wait: Wait, evidence: Evidence) -> dict[str, Any]:
    return {
        "text": waits_text(wait, evidence),
        "waiting": list(wait.waiting),
        "awaited": list(wait.awaited),
        "since_ns": wait.since_ns,
    }


def _branch(rank: int, waiting: Waiting, above: set[int]) -> dict[str, Any]:
    """A rank and those that wait for it, each with those that wait for them."""
    direct = [wait for wait in waiting.waits if rank in wait.awaited]
    followers = sorted({other for wait in direct for other in wait.waiting} - above)
    below = [other for other in followers if any(other in w.awaited for w in waiting.waits)]
    ends = [other for other in followers if other not in below]
    further = above | set(followers)
    branches = [_branch(other, waiting, further) for other in below[:_MOST_IN_TREE]]
    op = f"{direct[0].op} {direct[0].seq:,}" if direct and direct[0].seq >= 0 else ""
    if ends:
        branches.insert(0, {"rank": named(ends), "op": op, "branches": []})
    return {"rank": named([rank]), "op": "", "branches": branches}


def _ranks(evidence: Evidence, waiting: Waiting) -> Iterable[dict[str, Any]]:
    """Rows of the table: roots first, then who waits, then all others."""
    waits = {rank: wait for wait in reversed(waiting.waits) for rank in wait.waiting}
    awaited = {rank for wait in waiting.waits for rank in wait.awaited}
    roots = set(waiting.roots) or {rank for cycle in waiting.cycles for rank in cycle}

    def order(rank: int) -> tuple[int, int]:
        return (0 if rank in roots else 1 if rank in awaited else 2 if rank in waits else 3, rank)

    for rank in sorted(evidence.ranks, key=order):
        look, wait = evidence.looks.get(rank), waits.get(rank)
        number = f" {wait.seq:,}" if wait and wait.seq >= 0 else ""
        in_op = f"{wait.op}{number}" if wait else ""
        role = "awaited" if rank in roots else "waits" if wait else ""
        yield {"rank": rank, "role": role, "in": in_op, **_of_look(look)}


def _of_look(look: Look | None) -> dict[str, Any]:
    if look is None:
        return dict.fromkeys(("host", "process", "phase", "step", "beat_s", "quiet_s", "frame"))
    return {
        "host": look.host,
        "process": look.process,
        "phase": look.phase,
        "step": look.step,
        "beat_s": round(look.beat_age_ms / 1e3, 1),
        "quiet_s": round(look.quiet_ms / 1e3, 1),
        "frame": users_frame(look.stack) or UNKNOWN,
    }


def _commands(evidence: Evidence, waiting: Waiting) -> Iterable[dict[str, str]]:
    """What to run on the hosts of the ranks that are waited for."""
    for rank in waiting.roots[:3]:
        look = evidence.looks.get(rank)
        if look is None:
            continue
        where = f"on {look.host or 'its host'}"
        if look.process in ("T", "t"):
            yield {"what": f"Continue rank {rank}, {where}", "command": f"kill -CONT {look.pid}"}
        elif look.process in ("gone", "Z", ""):
            yield {
                "what": f"Why rank {rank} ended, {where}",
                "command": f"dmesg -T | grep -i -E 'xid|oom|killed process {look.pid}'",
            }
        else:
            command = f"py-spy dump --native --pid {look.pid}"
            yield {"what": f"All stacks of rank {rank}, {where}", "command": command}
