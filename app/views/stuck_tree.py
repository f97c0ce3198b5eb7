"""Who waits for whom, from the ranks at the roots upwards, and the circles that have no root."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from diagnosis.stuck.evidence import Evidence
from diagnosis.stuck.mismatches import mismatches_of
from diagnosis.stuck.text import named
from diagnosis.stuck.waiting import Wait, Waiting

_MOST_BRANCHES = 64


def op_text(wait: Wait, evidence: Evidence) -> str:
    """all_reduce 31 of group 5 (dp)"""
    if wait.seq < 0:
        return wait.op
    return f"{wait.op} {wait.seq:,} of {evidence.name_of(wait.group_id)}"


def blamed(waiting: Waiting, evidence: Evidence) -> set[int]:
    """Ranks that entered something else than the others, else those at the roots.

    Not those in an operation that all its ranks have entered: they do not keep it from its end.
    """
    if mismatches := mismatches_of(evidence):
        return set(mismatches[0].ranks)
    inside = {rank for wait in waiting.complete for rank in wait.waiting}
    return set(waiting.roots) - inside


def wait_tree(waiting: Waiting, evidence: Evidence) -> tuple[dict[str, Any], ...]:
    """The roots with those that wait for them, nested; roots with the same waits are one. A root
    is `blamed` where it is not in an operation that all its ranks have entered.
    """
    at_fault = blamed(waiting, evidence)
    by_waits: dict[tuple[int, ...], list[int]] = {}
    for rank in waiting.roots:
        waits = tuple(i for i, wait in enumerate(waiting.waits) if rank in wait.awaited)
        by_waits.setdefault(waits, []).append(rank)
    alike = list(by_waits.values())[:_MOST_BRANCHES]
    above = set(waiting.roots)
    return tuple(
        _node(ranks, "", waiting, above, evidence) | {"blamed": bool(at_fault & set(ranks))}
        for ranks in alike
    )


def _node(
    ranks: Sequence[int], op: str, waiting: Waiting, above: set[int], evidence: Evidence
) -> dict[str, Any]:
    """`above`: ranks that stand in the tree already, between here and its roots or next to it."""
    branches: list[dict[str, Any]] = []
    awaited = {rank for wait in waiting.waits for rank in wait.awaited}
    direct = [wait for wait in waiting.waits if set(ranks) & set(wait.awaited)]
    shown = above | {rank for wait in direct for rank in wait.waiting}
    left = shown - above
    for wait in direct:
        followers = [rank for rank in wait.waiting if rank in left]
        left -= set(followers)
        text = op_text(wait, evidence)
        if ends := [rank for rank in followers if rank not in awaited]:
            branches.append({"rank": named(ends), "op": text, "branches": []})
        branches += [
            _node([rank], text, waiting, shown, evidence) for rank in followers if rank in awaited
        ]
    return {"rank": named(ranks), "op": op, "branches": branches[:_MOST_BRANCHES]}


def wait_circles(waiting: Waiting, evidence: Evidence) -> tuple[tuple[dict[str, Any], ...], ...]:
    """Of each circle its ranks in order: each waits for the next one, the last for the first."""
    return tuple(tuple(_links(cycle, waiting.waits, evidence)) for cycle in waiting.cycles)


def _links(
    cycle: Sequence[int], waits: Sequence[Wait], evidence: Evidence
) -> Iterable[dict[str, Any]]:
    for rank, after in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
        wait = next(w for w in waits if rank in w.waiting and after in w.awaited)
        yield {"rank": rank, "waits_for": after, "op": op_text(wait, evidence)}
