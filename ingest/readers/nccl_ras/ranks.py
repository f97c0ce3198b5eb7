"""Which global rank each process of RAS's polls is: polls name ranks of communicators only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingest.readers.nccl_ras.polls import Communicator, Poll, Process


def ranks_of(polls: Sequence[Poll], by_pid: Mapping[int, int]) -> tuple[dict[Process, int], str]:
    """Rank of each process of the newest communicators, and on what this rests, in words.

    `by_pid`: ranks of processes as a trace next to the polls knows them.
    """
    communicators = [one for poll in polls[-1:] for one in poll.communicators.values()]
    processes = {m.process for one in communicators for m in one.members.values()}
    largest = max(communicators, key=_weight, default=None)
    if largest is None:
        return {}, ""
    traced = {one: by_pid[one.pid] for one in processes if one.pid in by_pid}
    if processes and len(set(traced.values())) == len(processes):
        return traced, "they are those of the same processes in the trace"
    world = {member.process: rank for rank, member in largest.members.items()}
    if processes <= world.keys():
        text = f"they are taken from the largest communicator ({largest.size} ranks)"
        return world, text
    others = sorted(processes)
    text = (
        "no communicator has all of them, so that they are numbered by host, process and GPU; "
        "findings name the processes"
    )
    return {process: rank for rank, process in enumerate(others)}, text


def _weight(communicator: Communicator) -> tuple[int, int]:
    return communicator.size, len(communicator.members)
