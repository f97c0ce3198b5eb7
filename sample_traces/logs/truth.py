"""What is true of a failed job: which line shows the cause, who is at fault, what helps."""

from __future__ import annotations

from dataclasses import dataclass

from sample_traces.logs.entries import Job


@dataclass(frozen=True)
class Truth:
    """What a diagnosis should report. `says`: pieces of text of which the line it quotes holds one;
    `advice`: words that are right; `ranks`, `hosts`: whom it may name, both empty where nobody is
    at fault; `unknown`: the logs do not show a cause. `node`: where it happened, '' nowhere in
    particular.
    """

    category: str
    says: tuple[str, ...]
    advice: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    node: str = ""
    unknown: bool = False


def of_rank(job: Job, category: str, advice: str, rank: int, *says: str) -> Truth:
    """A rank is at fault. `advice`: words separated by blanks."""
    node = job.host_name(job.host_of(rank))
    return Truth(category, says, tuple(advice.split()), (rank,), (node,), node)


def of_host(job: Job, category: str, advice: str, host: int, *says: str) -> Truth:
    """A host is at fault, or all of its ranks."""
    node = job.host_name(host)
    return Truth(category, says, tuple(advice.split()), job.ranks_of(host), (node,), node)


def of_nobody(category: str, advice: str, *says: str) -> Truth:
    """There is a cause, but no rank or host is at fault by itself."""
    return Truth(category, says, tuple(advice.split()))


UNKNOWN = Truth("unknown", (), unknown=True)
