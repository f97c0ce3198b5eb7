"""dead_rank, silent_host: a rank falls silent, its job stands still, and the others live on.

Hooks send a heartbeat each second, whatever the training thread does. A rank is silent where its
last one is SILENT_MS older than those of most others, or where the watchdog of its host saw its
process gone without a record of its end; not while that watchdog sees it alive. It is a finding
where nobody has finished more than MOST_FURTHER steps since: a job cannot go on without a rank, so
that one that others leave behind has only lost its recorder, which is set aside unless its process
is gone: what a killed rank had not written yet is lost with it. A host of several
ranks that all are silent is named as the host; where most ranks are, or some have finished, it is
the job that has ended.
Processes that NCCL's RAS considers dead are findings without heartbeats.

Source: MegaScale (2402.15627) finds dead machines by heartbeats.
Assumes: clocks of hosts within some seconds. Known false positives: a file system that holds back
the files of a rank or host for as long. Not separable without logs of the system: a crashed
process, its device, its host, its network card. Blind spots: imported runs; without a watchdog jobs
all whose ranks end within SILENT_MS of the first. Cost: one row per rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, Verdict
from diagnosis.statistics.evidence_links import timeline_view
from diagnosis.statistics.natural_order import natural
from diagnosis.statistics.rank_tables import placed
from diagnosis.statistics.shared_location import pipeline_ranks, place_of
from diagnosis.stuck.dead_processes import of_ras
from diagnosis.stuck.evidence import HOW

NAME = "dead_rank"
KINDS = ("dead_rank", "silent_host")
QUESTIONS = ("last_signs", "rank_places", "rank_looks")

SILENT_MS = 10_000.0
"""A rank counts as silent from here on everywhere in the dashboard (DESIGN: live state)."""

CERTAIN_MS = 60_000.0
"""And as lost from here on."""

ALIVE = ("R", "S", "D", "T", "t")
"""States of a process (proc(5), stat)."""

GONE = "the process is gone"
"""Words of a watchdog that has seen so; without them a lost rank may only be silent."""

Row = Mapping[str, Any]

MOST_FURTHER = 2
"""Stages of a pipeline may be one step ahead, and the newest step may not have been written."""


@dataclass(frozen=True)
class _Silent:
    """Ranks that fell silent together: rows of last_signs. `host`: of which they are all."""

    rows: Sequence[Mapping[str, Any]]
    host: str | None
    quiet_ms: float  # of the one that reported last

    @property
    def is_gone(self) -> bool:
        """Whether the watchdog saw that."""
        return all(row["is_lost"] for row in self.rows)

    @property
    def who(self) -> str:
        """In words."""
        if self.host is not None:
            return f"All ranks of {self.host}"
        named = ", ".join(str(row["rank"]) for row in self.rows)
        return f"Rank{'s' if len(self.rows) > 1 else ''} {named}"


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on an attempt: answers of QUESTIONS; None where fewer than two ranks sent signs."""
    rows = tables["last_signs"].to_pylist()
    if found := of_ras(tables["rank_looks"], tables["rank_places"], attempt):
        return Verdict(NAME, (found,), None, of_data=True)
    if len(rows) < 2:
        return None
    newest_ns = float(np.median([row["last_ns"] for row in rows]))
    seen = {row["rank"]: row for row in tables["rank_looks"].to_pylist()}
    silent = [
        row
        for row in rows
        if row["status"] != "finished"
        and not _was_seen_alive(row, seen.get(row["rank"]), newest_ns)
        and (newest_ns - row["last_ns"] >= _silent_ns(row) or _is_gone(row, rows))
    ]
    further = max((row["last_step"] for row in rows if row["last_step"] is not None), default=0)
    dead = [
        row
        for row in silent
        if GONE in (row["lost_text"] or "") or further - (row["last_step"] or 0) <= MOST_FURTHER
    ]
    findings = tuple(
        _finding(together, tables["rank_places"], further, attempt)
        for together in _together(dead, rows)
    )
    set_aside = tuple(_left_behind(row) for row in silent if row not in dead)
    checked = None if findings else "No rank fell silent while the others went on."
    return Verdict(NAME, findings, checked, set_aside=set_aside, of_data=True)


def _silent_ns(row: Row) -> float:
    """Rows of a host with a collector may be there that much later."""
    return SILENT_MS * 1e6 + float(row["publish_every_ns"] or 0)


def _was_seen_alive(row: Row, look: Row | None, newest_ns: float) -> bool:
    """Whether its watchdog saw the process long after its last heartbeat, and of late: a call may
    hold the GIL, or a signal have stopped it, which is not the same as being dead.
    """
    if look is None or look["process"] not in ALIVE or GONE in (row["lost_text"] or ""):
        return False
    after_ms, before_ms = (look["ts_ns"] - row["last_ns"]) / 1e6, (newest_ns - look["ts_ns"]) / 1e6
    return bool(after_ms >= SILENT_MS / 2 and before_ms <= CERTAIN_MS)


def _is_gone(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the watchdog says so of it and not of the whole job, of which none has finished.

    Where as many ranks are gone as are left, one that failed shows that the job was not ended from
    outside: an error reached it, and it could still say so.
    """
    lost = sum(other["is_lost"] for other in rows)
    ends = {other["status"] for other in rows if not other["is_lost"]}
    is_over = "finished" in ends or (2 * lost >= len(rows) and "failed" not in ends)
    return bool(row["is_lost"] and row["status"] is None and not is_over)


def _together(dead: Sequence[Row], rows: Sequence[Row]) -> list[_Silent]:
    """Whole hosts by themselves, and all other ranks."""
    if not dead:
        return []
    others_ns = [row["last_ns"] for row in rows if row not in dead]
    newest_ns = float(np.median(others_ns or [row["last_ns"] for row in rows]))
    quiet_ms = (newest_ns - max(row["last_ns"] for row in dead)) / 1e6
    all_of = Counter(row["host"] for row in rows)
    dead_of = Counter(row["host"] for row in dead)
    hosts = [host for host, num in dead_of.items() if host is not None and num == all_of[host] > 1]
    hosts.sort(key=natural)
    whole_hosts = [
        _Silent([r for r in dead if r["host"] == host], host, quiet_ms) for host in hosts
    ]
    single = [row for row in dead if row["host"] not in hosts]
    return [*whole_hosts, *([_Silent(single, None, quiet_ms)] if single else [])]


def _left_behind(row: Mapping[str, Any]) -> str:
    return (
        f"Rank {row['rank']} records nothing since step {row['last_step']}, and the others go on: "
        "its recording has ended, not the rank."
    )


def _finding(silent: _Silent, places: pa.Table, further: int, attempt: int) -> Finding:
    rank_R = np.array([row["rank"] for row in silent.rows], np.int64)
    ranks = placed(rank_R, places)
    lasts = [row["last_step"] for row in silent.rows if row["last_step"] is not None]
    first = min(lasts) + 1 if lasts else 0
    last = max(first, further)
    others = tuple(sorted(set(places["rank"].to_pylist()) - set(rank_R.tolist())))
    lead = f"{silent.quiet_ms / 1e3:.1f} s before the others"
    one = len(silent.rows) == 1
    sign = "its last heartbeat" if one else "their last heartbeats"
    processes = "its process is" if one else "their processes are"
    gone = f", and {processes} gone" if silent.is_gone else ""
    logs, host = (
        ("that process and of its host", "that host")
        if one
        else ("these processes and of their hosts", "these hosts")
    )
    return Finding(
        kind="dead_rank" if silent.host is None else "silent_host",
        attempt=attempt,
        severity="urgent",
        confidence="high" if silent.is_gone or silent.quiet_ms >= CERTAIN_MS else "medium",
        title=f"{silent.who} fell silent in step {first}",
        text=f"{silent.who} sent {sign} {lead}{gone}; no step has finished since.",
        culprits=tuple(place_of(ranks, row) for row in range(rank_R.size)),
        victims=others,
        first_step=first,
        last_step=last,
        ongoing=True,
        evidence=_evidence(
            silent, ranks_shown=pipeline_ranks(ranks, 0), first=first, attempt=attempt
        ),
        alternatives=_ALTERNATIVES,
        next_step=f"Look at the logs of {logs} (dmesg, Xid and ECC errors, the "
        f"out-of-memory killer); restart from the last checkpoint without {host}.",
        hosts=() if silent.host is None else (silent.host,),
        cause=_cause(silent.rows),
    )


def _cause(rows: Sequence[Mapping[str, Any]]) -> str:
    """The error that a rank recorded, else how its watchdog says that it died."""
    one = len(rows) == 1
    if error := next((row["error"] for row in rows if row["error"]), None):
        return f"{'It' if one else 'One of them'} ended with: {error}"
    texts = [row["lost_text"] or "" for row in rows]
    if how := next((text.partition(HOW)[2] for text in texts if HOW in text), ""):
        return f"{how[0].upper()}{how[1:]}."
    if one:
        return "Its process no longer runs, or is cut off."
    return "Their processes no longer run, or are cut off."


def _evidence(
    silent: _Silent, ranks_shown: tuple[int, ...], first: int, attempt: int
) -> tuple[Evidence, ...]:
    shown = int(silent.rows[0]["rank"])
    link = timeline_view(attempt, shown, ranks_shown, (max(first - 1, 0), first))
    quiet_s = round(silent.quiet_ms / 1e3, 1)
    newest = "Its last heartbeat" if len(silent.rows) == 1 else "The newest of their heartbeats"
    return (
        Evidence(
            f"{newest} is {quiet_s} s older than those of most ranks; they come each second.",
            quiet_s,
            "s",
            "last_signs",
            (("attempt", attempt),),
            link,
        ),
    )


_ALTERNATIVES = (
    "The process, its device, its host or its network card: only the logs of the system "
    "distinguish them.",
    "The run folder cannot be written from there any more, while the job waits for another reason.",
)
