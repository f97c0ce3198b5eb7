"""Process groups: their members, their ids in the data, and the number of the next collective.

Members must give one instance of a collective the same number without communicating, also where
Python wrappers see half of the instances and torch's Flight Recorder the rest. So the number comes
from the process group's own count, with three corrections: gloo also counts point-to-point
operations, which members do not share; it counts a list reduce-scatter once per member and a
monitored barrier differently on every rank; and a group with two backends counts one of them only.
The surplus of such a call is measured around it. Observed with torch 2.13 and gloo, and tested.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from trace_hooks.job.layout_detection import axis_of_name
from trace_hooks.recording.recorder import Recorder

KIND_OF_AXIS = {
    "tp": "tp_comm",
    "pp": "pp_comm",
    "dp": "dp_comm",
    "ep": "ep_comm",
    "cp": "cp_comm",
}

MOST_UNSEEN = 10_000
"""Gaps that a group has until the Flight Recorder is read, which keeps fewer entries. More would
pile up only where nothing reads it: the source is off, or a disk hangs."""

LOCK_S = 0.5
"""The drain thread waits this long for a lock. A signal handler that stops the tracer waits for the
drain thread, and may have interrupted the training thread while that held a lock. Locks are
re-entrant for the same reason."""


def group_id(ranks: Sequence[int], ordinal: int) -> int:
    """Stable positive 63-bit id of the `ordinal`-th group made of these ordered global ranks."""
    text = f"{ordinal}:{','.join(map(str, ranks))}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1 or 1


class Group:
    """One process group of this rank and where its numbering stands."""

    def __init__(self, pg: Any, ordinal: int, ranks: tuple[int, ...]) -> None:
        self.pg = weakref.ref(pg)  # holding a group would keep its communicator alive
        self.name = _name_of(pg)
        self.desc = str(pg.group_desc)
        self.backend = str(pg.name())
        self.ranks = ranks
        self.me = ranks[pg.rank()]
        self.group_id = group_id(ranks, ordinal)
        self.axis = "unknown"
        self.claimed = 0  # number of the last collective that a wrapper entered
        self.unseen: dict[int, int] = {}  # the group's own count: our number, not yet a row
        self.forgotten = 0  # gaps that were too many, not yet counted as dropped
        self.in_call = 0  # wrapped calls whose numbers are not final yet
        self.lock = threading.RLock()  # the drain thread reads the numbers as well; see LOCK_S
        self.p2p_counted = 0  # point-to-point operations among the group's own count
        self.surplus = 0  # counted beyond one per collective; negative: not counted at all
        self._p2p: dict[tuple[int, int, int], int] = {}
        self._by_backend = True

    @property
    def kind(self) -> str:
        """Span kind of this group's communication; of one rank it is none."""
        if len(self.ranks) == 1:
            return "host"
        return KIND_OF_AXIS.get(self.axis, "other_comm")

    def count(self) -> int:
        """Operations that the group has counted; the wrappers' count where it has none."""
        if self._by_backend and (pg := self.pg()) is not None:
            try:
                number: int = pg._get_sequence_number_for_group()
            except RuntimeError:  # a backend without sequence numbers (mpi, fake)
                self._by_backend = False
            else:
                return number
        return self.claimed + self.p2p_counted + self.surplus

    def note_unseen(self) -> int:
        """Note the collectives that no wrapper entered (DDP's, compiled ones); return count()."""
        count = self.count()
        others = self.p2p_counted + self.surplus
        number = count - others
        if number > self.claimed:
            for missed in range(max(self.claimed, number - MOST_UNSEEN) + 1, number + 1):
                self.unseen[missed + others] = missed
            self.claimed = number
            if len(self.unseen) > MOST_UNSEEN:
                for oldest in list(self.unseen)[: MOST_UNSEEN // 2]:
                    self.unseen.pop(oldest, None)  # the drain thread removes some as well
                    self.forgotten += 1
        return count

    def next_p2p(self, src: int, dst: int, tag: int) -> int:
        """Number of the next message on the way src -> dst (global ranks) with this tag."""
        key = (src, dst, tag)
        number = self._p2p.get(key, 0)
        self._p2p[key] = number + 1
        return number


class Groups:
    """The process groups that this rank uses; writes the `groups` row of each, and again with its
    axis where that becomes known later."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[int, Group] = {}  # by id() of the ProcessGroup
        self._ordinals: dict[tuple[int, ...], int] = {}
        self._lock = threading.RLock()  # the drain thread adds groups as well

    def of(self, pg: Any) -> Group:
        """Group of a torch ProcessGroup."""
        group = self._known.get(id(pg))
        if group is not None and group.pg() is pg:
            return group
        self.scan()
        group = self._known.get(id(pg))
        if group is None or group.pg() is not pg:
            with self._lock:
                group = self._meet(pg, _ranks_of(pg))
        return group

    def scan(self) -> list[Group]:
        """Add all groups there are, in the order of their creation, which members share.

        A group that another thread is just making is not in all of torch's tables yet: the next
        call adds it and those after it.
        """
        from torch.distributed import distributed_c10d

        world = distributed_c10d._world
        if not self._lock.acquire(timeout=LOCK_S):
            return []
        try:
            for pg in list(world.pg_names):
                group = self._known.get(id(pg))
                if group is None or group.pg() is not pg:
                    ranks = world.pg_group_ranks.get(pg)
                    if ranks is None:
                        break
                    self._meet(pg, _in_group_order(ranks))
            return [group for group in self._known.values() if group.pg() is not None]
        finally:
            self._lock.release()

    def start_from_now(self, last_numbers: dict[str, int]) -> None:
        """Begin to number where the groups stand now.

        `last_numbers`: the Flight Recorder's last number by group name; what a group counts beyond
        it were point-to-point operations.
        """
        for group in self.scan():
            counted = group.count()
            group.claimed = last_numbers.get(group.name, counted)
            group.p2p_counted = counted - group.claimed

    def resolve_axes(self) -> None:
        """Look again at groups of unknown axis, now that a layout may be known.

        One that has become known is written once more: readers take it instead of the unknown.
        """
        for group in list(self._known.values()):
            if group.axis == "unknown":
                group.axis = self._axis(group)
                if group.axis != "unknown":
                    self._write(group)

    def _axis(self, group: Group) -> str:
        named = axis_of_name(group.desc)
        if named is not None:
            return "dp" if named.startswith("dp") else named
        layout = self._recorder.rank_state.layout
        return "unknown" if layout is None else layout.axis_of(group.ranks)

    def _meet(self, pg: Any, ranks: tuple[int, ...]) -> Group:
        ordinal = self._ordinals.get(ranks, 0)
        self._ordinals[ranks] = ordinal + 1
        group = Group(pg, ordinal, ranks)
        group.axis = self._axis(group)
        self._known[id(pg)] = group
        self._write(group)
        return group

    def _write(self, group: Group) -> None:
        self._recorder.add_row(
            "groups",
            group_id=group.group_id,
            name=group.name,
            desc=group.desc,
            axis=group.axis,
            ranks=list(group.ranks),
        )


def _name_of(pg: Any) -> str:
    """Its name; that of torch's registry where a class of the job's own has none."""
    from torch.distributed import distributed_c10d

    try:
        return str(pg.group_name)
    except RuntimeError:
        return str(distributed_c10d._world.pg_names.get(pg, ""))


def _in_group_order(group_rank_of: dict[int, int]) -> tuple[int, ...]:
    """Global ranks of a group, from torch's {global rank: group rank}."""
    return tuple(sorted(group_rank_of, key=group_rank_of.__getitem__))


def _ranks_of(pg: Any) -> tuple[int, ...]:
    """Global ranks of a group that torch's registry lacks; 0 .. size - 1 where unknown."""
    from torch.distributed import distributed_c10d

    try:
        return tuple(distributed_c10d.get_process_group_ranks(pg))
    except (KeyError, RuntimeError, ValueError):
        return tuple(range(pg.size()))
