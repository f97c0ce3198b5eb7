"""What is the cause only where no line says more: a signal, a heartbeat, the end of the job, or a
setting that is known to make communication fail.
"""

from __future__ import annotations

from collections.abc import Sequence

from diagnosis.first_cause.anchors import Episode
from diagnosis.first_cause.cause import FEW, FirstCause, World
from diagnosis.first_cause.exits import exits_in
from diagnosis.first_cause.lines import Line

_OF_JOB = ("job_cancelled", "terminated", "interrupted")
_OF_RANK = ("killed", "bus_error", "storage_slow", "heartbeat_timeout")
_OF_ADDRESS = "gloo_loopback"
_OF_NETWORK = ("interface_loopback", "gid_table_changed")


def weak_cause(episode: Episode, world: World) -> FirstCause | None:
    """Of the weak lines the first that decides something; None where only timeouts are left."""
    for name in _OF_RANK:
        found = _of_rank([line for line in episode.weak if line.name == name], world)
        if found is not None:
            return found
    timeouts = [line for line in episode.weak if line.label and line.label.category == "timeout"]
    for name in _OF_JOB:
        lines = [line for line in episode.weak if line.name == name]
        if any(_has_failed_before(line, episode) for line in lines[:1]):
            continue
        if lines and not any(timeout.begin_ns <= lines[0].begin_ns for timeout in timeouts):
            return FirstCause(lines[0], (), (), "medium", of_all=True, equal=tuple(lines))
    return _of_network(episode, world)


def _has_failed_before(end: Line, episode: Episode) -> bool:
    """Whether a process had ended by itself before somebody ended the job."""
    return any(
        line.number < end.number if line.file and line.file == end.file else line.is_before(end)
        for line in (*episode.echoes, *episode.weak)
        if any(each.is_own for each in exits_in(line.text))
    )


def _of_rank(lines: Sequence[Line], world: World) -> FirstCause | None:
    ranks = {line.rank for line in lines if line.rank >= 0}
    hosts = {line.host for line in lines if line.host}
    if not lines:
        return None
    host = next(iter(hosts)) if len(hosts) == 1 and not ranks and world.has_several_hosts else None
    of_many = len(ranks) > max(1, FEW * len(ranks | set(world.hosts)))
    if lines[0].name not in ("killed", "bus_error") and (of_many or not (ranks or host)):
        return None
    return FirstCause(
        lines[0],
        () if of_many else tuple(sorted(ranks)),
        (host,) if host and not of_many else (),
        "low",
        equal=tuple(lines),
    )


def _of_network(episode: Episode, world: World) -> FirstCause | None:
    """A setting that explains why ranks of several hosts could not talk."""
    own = [line for line in episode.weak if line.name == _OF_ADDRESS]
    if own:
        return FirstCause(own[0], confidence="low", of_all=True, equal=tuple(own))
    failed = [line for line in (*episode.echoes, *episode.weak) if line.role != "teardown"]
    shown = [line for line in episode.context if line.name in _OF_NETWORK]
    if not failed or not shown or not world.has_several_hosts:
        return None
    return FirstCause(shown[0], confidence="low", of_all=True, equal=tuple(shown))
