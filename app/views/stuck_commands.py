"""What to run on the hosts of a stuck job: commands to copy, with what they are for."""

from __future__ import annotations

from collections.abc import Iterable

from app.views.stuck_tree import blamed
from diagnosis.stuck.evidence import Evidence, Look
from diagnosis.stuck.stacks import STORAGE, activity_of, waits_for_storage
from diagnosis.stuck.waiting import Waiting

_MOST_RANKS = 3
_DIED = ("gone", "Z", "")
"""States of processes that no longer run."""

Command = dict[str, str]


def commands_of(evidence: Evidence, waiting: Waiting) -> tuple[Command, ...]:
    """For the ranks that are waited for, or that entered something else than the others; where
    there are none, for those in a circle, or in an operation that does not complete. Of a job that
    is over only the kernels can be asked, about ranks that died.
    """
    circle = [rank for cycle in waiting.cycles for rank in cycle]
    ranks = sorted(blamed(waiting, evidence)) or circle
    looks = [evidence.looks[rank] for rank in ranks if rank in evidence.looks]
    if evidence.is_over:
        died = [look for look in looks if look.process in _DIED]
        return tuple(command for look in died[:_MOST_RANKS] for command in _of_rank(look))
    if ranks or not waiting.complete:
        return tuple(command for look in looks[:_MOST_RANKS] for command in _of_rank(look))
    oldest = min(waiting.complete, key=lambda wait: wait.since_ns)
    inside = [evidence.looks[rank] for rank in oldest.waiting if rank in evidence.looks]
    return tuple(_connections(look) for look in inside[:_MOST_RANKS])


def _of_rank(look: Look) -> Iterable[Command]:
    where = _where(look)
    if look.process in _DIED:
        command = f"dmesg -T | grep -i -E 'xid|oom|killed process {look.pid}'"
        yield {"what": f"Why rank {look.rank} ended, {where}", "command": command}
        return
    if look.process in ("T", "t"):
        yield {
            "what": f"Who holds rank {look.rank} (TracerPid 0: a signal stopped it), {where}",
            "command": f"grep -E 'State|PPid|TracerPid' /proc/{look.pid}/status",
        }
        if look.process == "T":
            yield {
                "what": f"Let rank {look.rank} go on, {where}",
                "command": f"kill -CONT {look.pid}",
            }
        return
    if activity_of(look.stack) == STORAGE or waits_for_storage(look.call, look.stack):
        yield {
            "what": f"Which files rank {look.rank} has open, {where}",
            "command": f"ls -l /proc/{look.pid}/fd",
        }
    yield {
        "what": f"All stacks of rank {look.rank}, {where}",
        "command": f"py-spy dump --native --pid {look.pid}",
    }


def _connections(look: Look) -> Command:
    return {
        "what": f"Connections of rank {look.rank} and what waits in them, {_where(look)}",
        "command": f"ss -tniop | grep -A1 'pid={look.pid},'",
    }


def _where(look: Look) -> str:
    return f"on {look.host}" if look.host else "on its host"
