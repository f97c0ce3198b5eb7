"""Which rank and host a line is about, where its process or its launcher says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from diagnosis.first_cause.exits import Exit, exits_in, spawned_rank
from diagnosis.first_cause.facts import pid_of
from diagnosis.first_cause.lines import Line

Pids = Mapping[tuple[str | None, int], int]
"""Rank by host and process id."""

_SRUN = "srun: error"
_PER_HOST = ("local_rank", "elastic")
"""Words of launchers of which Slurm starts one per host, so that its tasks are no ranks."""


def placed(lines: Sequence[Line], pids: Pids, num_hosts: int = 0) -> list[Line]:
    """The lines with their ranks and hosts, as far as somebody names them. `num_hosts`: known."""
    known = {**pids, **_pids_in_boxes(lines)}
    tasks_are_ranks = _tasks_are_ranks(lines, num_hosts)
    found = [_placed(line, known, tasks_are_ranks) for line in lines]
    return found if num_hosts > 1 else [_spawned(line) for line in found]


def _spawned(line: Line) -> Line:
    """On one host the numbers of processes that torch.multiprocessing starts are ranks."""
    return line if line.rank >= 0 else replace(line, rank=spawned_rank(line.before))


def hosts_of_ranks(lines: Iterable[Line]) -> dict[int, str]:
    """Host of each rank whose end a launcher reported, from lines that are placed."""
    found = {}
    for line in lines:
        if line.rank >= 0 and line.host and exits_in(line.text):
            found[line.rank] = line.host
    return found


def _tasks_are_ranks(lines: Sequence[Line], num_hosts: int) -> bool:
    """Whether Slurm started each rank; else it started a launcher on each host."""
    tasks = [end.rank for line in lines if _SRUN in line.text for end in exits_in(line.text)]
    if max(tasks, default=-1) >= num_hosts > 0:
        return True
    return not any(word in line.text for line in lines for word in _PER_HOST)


def _pids_in_boxes(lines: Iterable[Line]) -> dict[tuple[str | None, int], int]:
    """Of processes that a launcher names with their ranks."""
    exits = [end for line in lines for end in exits_in(line.text)]
    found = {(end.host, end.pid): end.rank for end in exits if end.pid and end.rank >= 0}
    return {(host or None, pid): rank for (host, pid), rank in found.items() if pid is not None}


def _placed(line: Line, pids: Pids, tasks_are_ranks: bool) -> Line:
    if line.rank >= 0:
        return line
    ends = [end for end in exits_in(line.text) if end.is_own]
    if _SRUN in line.text and not tasks_are_ranks:
        ends = [replace(end, rank=-1) for end in ends]
    if ends:
        return _of_exits(line, ends, pids)
    pid = line.pid or (pid_of(line.text) if _is_own_pid(line) else None)
    return replace(line, rank=rank_of(pids, line.host, pid))


def _is_own_pid(line: Line) -> bool:
    """Whether a process id in the text may be that of a rank; a loader's is not."""
    return line.is_of_kernel or "DataLoader" not in line.text


def _of_exits(line: Line, ends: Sequence[Exit], pids: Pids) -> Line:
    """Where a launcher says that one process ended: its rank and host."""
    ranks = {
        end.rank if end.rank >= 0 else rank_of(pids, end.host or line.host, end.pid) for end in ends
    }
    hosts = {end.host for end in ends if end.host}
    host = next(iter(hosts)) if len(hosts) == 1 else line.host
    return replace(line, rank=next(iter(ranks)) if len(ranks) == 1 else -1, host=host)


def rank_of(pids: Pids, host: str | None, pid: int | None) -> int:
    """Of a process; one on an unknown host only where no two hosts have that number; -1 unknown."""
    if pid is None:
        return -1
    if (host, pid) in pids:
        return pids[host, pid]
    same = {rank for (other, its), rank in pids.items() if its == pid and None in (other, host)}
    return next(iter(same)) if len(same) == 1 else -1
