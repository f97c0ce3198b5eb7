"""What is the cause only where no line says more: a signal, a heartbeat, the end of the job."""

from __future__ import annotations

from collections.abc import Sequence

from diagnosis.first_cause.anchors import Episode
from diagnosis.first_cause.decision import FEW, FirstCause, World
from diagnosis.first_cause.lines import Line

_OF_JOB = ("job_cancelled", "terminated", "interrupted")
_OF_RANK = ("killed", "storage_slow", "heartbeat_timeout")


def weak_cause(episode: Episode, world: World) -> FirstCause | None:
    """Of the weak lines the first that decides something; None where only timeouts are left."""
    for name in _OF_RANK:
        found = _of_rank([line for line in episode.weak if line.name == name], world)
        if found is not None:
            return found
    timeouts = [line for line in episode.weak if line.label and line.label.category == "timeout"]
    for name in _OF_JOB:
        lines = [line for line in episode.weak if line.name == name]
        if lines and not any(timeout.begin_ns <= lines[0].begin_ns for timeout in timeouts):
            return FirstCause(lines[0], (), (), "medium", of_all=True, equal=tuple(lines))
    return None


def _of_rank(lines: Sequence[Line], world: World) -> FirstCause | None:
    ranks = {line.rank for line in lines if line.rank >= 0}
    if not lines or len(ranks) > max(1, FEW * world.num_ranks) or world.num_ranks == len(ranks) > 1:
        return None
    hosts = {line.host for line in lines if line.host}
    host = next(iter(hosts)) if len(hosts) == 1 and not ranks else None
    if not ranks and host is None and lines[0].name != "killed":
        return None
    return FirstCause(
        lines[0], tuple(sorted(ranks)), (host,) if host else (), "low", equal=tuple(lines)
    )
