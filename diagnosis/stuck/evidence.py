"""What is known of every rank of a job that makes no progress, from the answers of saved queries.

Where a rank stands in a group is known from what it has entered: from the ring that its host's
watchdog read, or from what the rank or a Flight Recorder wrote. What became of it is known from the
watchdog's looks and from its last signs. Nothing here judges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

ENTERED = "entered_collectives"
"""Reads all collectives of some steps: to be asked only where ranks make no progress."""

QUESTIONS = (ENTERED, "groups", "rank_looks", "last_signs", "rank_places")

HOW = "without an end record: "
"""Behind it a watchdog says how a process died."""

WAITS = "entered"
COMPLETED = "completed"

FLIGHT_RECORDER, NCCL_RAS = "flight_recorder", "nccl_ras"
"""Sources of looks: of the former the stack is that of the rank's last call, and its time, too."""

WATCHDOG = "watchdog"

FIRST_UNNUMBERED = 1 << 31
"""Numbers from here on are those of one side of a message: the other side counts otherwise."""


class Entered(NamedTuple):
    """A collective or message that a rank has entered; a row of entered_collectives."""

    rank: int
    group_id: int
    seq: int
    op: str
    dtype: str
    num_bytes: int
    peer: int
    tag: int
    enqueue_ns: int
    state: str
    source: str
    stack: tuple[str, ...] = ()

    @property
    def is_message(self) -> bool:
        """Whether only the two ranks of it count it."""
        return self.peer >= 0 or self.op in ("send", "recv")

    @property
    def is_numbered(self) -> bool:
        """Whether its number is the one that the other members know it by."""
        return self.seq < FIRST_UNNUMBERED


@dataclass(frozen=True)
class Look:
    """What the watchdog or another source saw of a rank; times in ms, None or '' where unknown."""

    rank: int
    host: str | None
    step: int
    ts_ns: int
    pid: int
    process: str
    phase: str
    beat_age_ms: float | None
    quiet_ms: float | None
    longest_ms: float
    num_entered: int
    call: str
    stack: tuple[str, ...]
    earlier_stack: tuple[str, ...]
    earlier_process: str | None
    since_ms: float | None
    cpu_ms: float | None
    io_bytes: int | None
    still_ms: float | None
    source: str
    has_moved: bool
    threads: tuple[str, ...]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Look:
        """The look of a row of rank_looks."""
        values: dict[str, Any] = {name: row[name] for name in cls.__annotations__}
        for name in ("stack", "earlier_stack", "threads"):
            values[name] = _frames(row[name])
        return cls(**values)

    @property
    def is_live(self) -> bool:
        """Whether it was made while the rank stood there, not taken from its last call."""
        return self.source != FLIGHT_RECORDER

    @property
    def is_timed(self) -> bool:
        """Whether it says when the rank stood there: files of py-spy do not."""
        return self.source in (WATCHDOG, NCCL_RAS)

    @property
    def is_part(self) -> bool:
        """Whether a dump was cut off or damaged: what it lacks the rank may have entered."""
        return self.source == FLIGHT_RECORDER and self.num_entered < 0

    @property
    def was_seen_twice(self) -> bool:
        """Whether it stood at the same place at the look before."""
        return self.since_ms is not None


@dataclass(frozen=True)
class Group:
    """A process group: `ranks` are its members, global, in group order; () where not described."""

    group_id: int
    name: str
    axis: str
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        axis = "" if self.axis == "unknown" else f" ({self.axis})"
        return f"group {self.name or self.group_id}{axis}"


@dataclass(frozen=True)
class Signs:
    """Last signs of a rank; a row of last_signs. `status`: how it ended, None while it runs."""

    last_ns: int
    status: str | None
    error: str | None
    last_step: int | None
    is_lost: bool
    lost_text: str | None = None


@dataclass(frozen=True)
class Evidence:
    """All of it. `entered` by group, then rank, in the order of seq; looks and signs by rank.

    `ranks`: those that left something; of others nothing is known, not even that they are absent.
    `world_size`: of the job, 0 unknown. `with_gpu`: ranks that compute on a GPU.
    """

    groups: Mapping[int, Group]
    entered: Mapping[int, Mapping[int, tuple[Entered, ...]]]
    looks: Mapping[int, Look]
    signs: Mapping[int, Signs]
    ranks: frozenset[int] = field(default=frozenset())
    world_size: int = 0
    with_gpu: frozenset[int] = field(default=frozenset())

    @property
    def at_ns(self) -> int | None:
        """When the ranks were last looked at; None where nobody did."""
        return max((look.ts_ns for look in self.looks.values() if look.is_timed), default=None)

    @property
    def has_moved(self) -> bool:
        """Whether the job goes on again: a rank did something after the last look at it."""
        return any(look.has_moved for look in self.looks.values())

    @property
    def is_over(self) -> bool:
        """Whether every rank has ended or is gone, and not all of them well."""
        statuses = {
            signs.status or ("lost" if signs.is_lost else "") for signs in self.signs.values()
        }
        return bool(statuses) and "" not in statuses and statuses != {"finished"}

    def is_known(self, rank: int) -> bool:
        """Whether what a rank has not entered would be seen: absence elsewhere says nothing."""
        look = self.looks.get(rank)
        return rank in self.ranks and (look is None or not look.is_part)

    def members(self, group_id: int) -> frozenset[int]:
        """Ranks that a group was described with, and those that entered something in it."""
        group = self.groups.get(group_id)
        return frozenset(group.ranks if group else ()) | self.entered.get(group_id, {}).keys()

    def name_of(self, group_id: int) -> str:
        """In words."""
        return str(self.groups.get(group_id, Group(group_id, "", "unknown", ())))


def evidence_of(tables: Mapping[str, pa.Table]) -> Evidence:
    """From the answers of QUESTIONS."""
    groups = {
        row["group_id"]: Group(row["group_id"], row["name"] or "", row["axis"], tuple(row["ranks"]))
        for row in tables["groups"].to_pylist()
    }
    looks = {row["rank"]: Look.of(row) for row in tables["rank_looks"].to_pylist()}
    signs = {
        row["rank"]: Signs(**{name: row[name] for name in Signs.__annotations__})
        for row in tables["last_signs"].to_pylist()
    }
    lost = {rank for rank, last in signs.items() if last.is_lost}
    looks |= {rank: _before_its_end(looks[rank]) for rank in lost & looks.keys()}
    entered = _by_group(tables["entered_collectives"])
    places = tables["rank_places"].to_pylist()
    ranks = frozenset(row["rank"] for row in places) | looks.keys()
    with_gpu = frozenset(row["rank"] for row in places if row["device"] not in (None, "cpu"))
    ranks |= {rank for by_rank in entered.values() for rank in by_rank}
    world_size = max((row["world_size"] or 0 for row in places), default=0)
    return Evidence(groups, entered, looks, signs, ranks, world_size, with_gpu)


def _before_its_end(look: Look) -> Look:
    """A look at a rank that was lost: while a process is killed neither its stack nor its call can
    be read, and it runs even if it was stopped. What was seen at the look before stands.
    """
    if look.stack or look.call or look.earlier_process is None:
        return look
    return replace(look, stack=look.earlier_stack, process=look.earlier_process)


def _by_group(table: pa.Table) -> dict[int, dict[int, tuple[Entered, ...]]]:
    by_group: dict[int, dict[int, list[Entered]]] = defaultdict(lambda: defaultdict(list))
    for row in table.to_pylist():
        values = {name: row[name] for name in Entered._fields}
        one = Entered(**values | {"stack": _frames(row["stack"])})
        by_group[one.group_id][one.rank].append(one)
    return {
        group_id: {rank: tuple(sorted(rows, key=lambda e: e.seq)) for rank, rows in ranks.items()}
        for group_id, ranks in by_group.items()
    }


def _frames(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (text or "").split("\n")))
