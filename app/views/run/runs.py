"""Rows of the list of runs: state (by arrival of data), size, progress, how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.errors import UserError, printable
from ingest.imports.preview import import_progress
from ingest.run import LOST_S, SILENT_S, Run
from ingest.run_folder.run_files import RUN_FILE

IMPORTING = "importing"
INDEXING = "indexing"
DAMAGED = "damaged"
STORED = "stored"
"""States of the list in addition to ingest.run.STATES."""

_UNKNOWN_HERE = ("running", "silent", "lost", INDEXING)
"""States that depend on what was stored meanwhile."""
_LONGEST_ERROR = 160
_NS = 1e9


@dataclass(frozen=True)
class Judged:
    """Summary of a run's diagnosis: how many findings are present or over, and the first."""

    num_present: int
    num_past: int
    first: str
    """its title; empty without a finding"""
    num_noted: int = 0
    """number of observations that are not findings"""
    is_partial: bool = False
    """its banner is amber: not all could be judged, or ranks wait, or a step is unusually long"""
    is_urgent: bool = False
    """the first finding acts now and costs the job"""


@dataclass(frozen=True)
class Card:
    """Data from one published state of a run's index; valid until the next one."""

    name: str
    is_live: bool
    """recorded by hooks, so that it can be silent or lost"""
    written_ns: int
    """when run.json was written, Unix ns"""
    layout: str = ""
    facts: Mapping[str, Any] | None = None
    """the row of run_card.sql; None: no data yet"""
    problem: str | None = None
    """why there is no other data: one sentence"""
    is_indexing: bool = False
    importing: str | None = None
    """progress of its import, as text; None: complete"""
    judged: Judged | None = None
    """None: not judged yet, or not enough data"""
    was_judged: bool = False
    """whether a diagnosis of it has ended"""

    @property
    def bar(self) -> str:
        """The top bar's text about a run, without its state; the bar is redrawn if it changes."""
        return f"attempt {self.facts['attempt'] if self.facts else 0} {self.layout}".strip()


@dataclass(frozen=True)
class RunRow:
    """One line of the list. None: unknown."""

    name: str
    state: str
    """running, silent, lost, finished, importing, indexing, damaged or stored (in a bucket)"""
    ended: str | None = None
    """how it ended, if it has"""
    attempts: int | None = None
    layout: str = ""
    num_ranks: int | None = None
    world_size: int | None = None
    first_step: int | None = None
    last_step: int | None = None
    num_steps: int | None = None
    step_ms: float | None = None
    num_hosts: int | None = None
    age_s: float | None = None
    """seconds since the last data arrived; for an ended run since its end"""
    num_bytes: int | None = None
    num_problems: int = 0
    problem: str | None = None
    importing: str | None = None
    """progress of its import, as text"""
    num_findings: int | None = None
    """present ones; None: not judged"""
    num_past: int | None = None
    first_finding: str = ""
    is_urgent: bool = False
    """whether that finding acts now and costs the job"""
    num_noted: int | None = None
    """number of observations that are not findings; None: not judged"""
    is_partial: bool | None = None
    """whether its banner is amber; None: nothing could be judged"""
    was_judged: bool = False
    """whether a diagnosis of it has ended"""


def read_card(folder: Path) -> Card:
    """Card of a run from its published snapshot; the card of a damaged run has the problem."""
    try:
        with Run(folder) as run:
            return card_of(run)
    except UserError as error:
        return Card(folder.name, False, written_ns(folder), problem=str(error))


def card_of(run: Run) -> Card:
    """Card of an opened run; raises UserError."""
    rows = run.ask("run_card").to_pylist()
    layout = run.layout(rows[0]["attempt"]) if rows else None
    sizes = str(layout) if layout else ""
    return Card(
        run.folder.name,
        run.info["source"] == "hooks",
        written_ns(run.folder),
        sizes,
        rows[0] if rows else None,
        importing=importing_words(run),
    )


def importing_words(run: Run) -> str | None:
    """Progress of a run's import; None if it is complete."""
    if not run.info.get("importing"):
        return None
    return str(import_progress(run.folder))


def importing_card(folder: Path) -> Card:
    """Card of a run that is being imported: it is indexed only once somebody opens it."""
    return Card(folder.name, False, written_ns(folder), importing=str(import_progress(folder)))


def waiting_card(folder: Path) -> Card:
    """Card of a run whose index is being built."""
    return Card(folder.name, True, written_ns(folder), is_indexing=True)


def written_ns(folder: Path) -> int:
    """When run.json was written, Unix ns; 0 if it is gone."""
    try:
        return (folder / RUN_FILE).stat().st_mtime_ns
    except OSError:  # it is being deleted
        return 0


def run_row(card: Card, now_ns: int) -> RunRow:
    """The row of a card at a time of the server's clock."""
    if card.problem is not None:
        return RunRow(card.name, DAMAGED, problem=card.problem)
    if card.is_indexing:
        return RunRow(card.name, INDEXING)
    if card.importing is not None:
        return RunRow(card.name, IMPORTING, importing=card.importing)
    facts = card.facts
    if facts is None:
        return RunRow(card.name, "lost", attempts=0, age_s=(now_ns - card.written_ns) / _NS)
    state = live_state(card, now_ns)
    judged = card.judged
    return RunRow(
        card.name,
        state,
        how_it_ended(facts) if state == "finished" and card.is_live else None,
        facts["num_attempts"],
        card.layout,
        facts["num_ranks"],
        facts["world_size"],
        facts["first_step"],
        facts["last_step"],
        facts["num_steps"],
        facts["step_ms"],
        facts["num_hosts"] or None,
        max(0.0, (now_ns - _last_sign_ns(card, state)) / _NS),
        facts["num_bytes"],
        facts["num_problems"],
        num_findings=judged.num_present if judged else None,
        num_past=judged.num_past if judged else None,
        first_finding=judged.first if judged else "",
        is_urgent=judged.is_urgent if judged else False,
        num_noted=judged.num_noted if judged else None,
        is_partial=judged.is_partial if judged else None,
        was_judged=card.was_judged,
    )


def with_stored(rows: Sequence[RunRow], stored_ns: Mapping[str, int]) -> list[RunRow]:
    """The rows, and last those of runs of a bucket of which there is not all here, newest first.

    What is here of such a run says how it was unless it has ended.
    """
    known = [row for row in rows if row.name not in stored_ns or row.state not in _UNKNOWN_HERE]
    others = sorted(stored_ns.keys() - {row.name for row in known})
    others.sort(key=lambda name: -stored_ns[name])
    return [*known, *(RunRow(name, STORED) for name in others)]


def activity_ns(card: Card) -> int:
    """When the run's last data arrived, Unix ns; imports: when they were imported."""
    facts = card.facts or {}
    arrived_ns = facts.get("arrived_ns") or 0
    return (
        max(arrived_ns, facts.get("ended_ns") or 0)
        if card.is_live and arrived_ns
        else (card.written_ns)
    )


def _last_sign_ns(card: Card, state: str) -> int:
    """When the run was last active: an ended run at its end, even if its files were copied
    later.
    """
    ended_ns = (card.facts or {}).get("ended_ns")
    is_over = state == "finished" and card.is_live and ended_ns is not None
    return int(ended_ns) if is_over else activity_ns(card)


def live_state(card: Card, now_ns: int) -> str:
    """As ingest.run.Run.state, from the card's data."""
    facts = card.facts or {}
    if card.importing is not None:
        return IMPORTING
    if not card.is_live:
        return "finished"
    if not facts.get("num_open"):
        return "finished" if facts.get("ended_ns") is not None else "lost"
    oldest_s = (now_ns - (facts["oldest_seen_ns"] or 0)) / _NS
    newest_s = (now_ns - (facts["newest_seen_ns"] or 0)) / _NS
    if oldest_s <= SILENT_S:
        return "running"
    return "lost" if newest_s > LOST_S else "silent"


def state_text(state: str) -> str:
    """The state in a word, as `stateText` of assets/lib/sentences.mjs; a run that is over may also
    have failed.
    """
    return "ended" if state == "finished" else state


def how_it_ended(facts: Mapping[str, Any]) -> str:
    """How a finished attempt ended, in a few words."""
    if facts["num_failed"]:
        error = " ".join((facts["error"] or "an error").split())[:_LONGEST_ERROR]
        others = facts["num_failed"] - 1
        more = f" and {others} more" if others else ""
        return printable(f"rank {facts['failed_rank']}{more} failed: {error}")
    if facts["num_stopped"]:
        return "stopped by a signal"
    return "finished"
