"""weights_diverged: copies of the same weights on several ranks are no longer equal to the bit.

Data-parallel replicas start equal and add the same updates, and so do weights that tensor-parallel
ranks hold whole. Where they were equal in EQUAL_BEFORE samples and then are not, one rank computed,
received or stored something else: no noise does that. The rank is named whose value fewest have.

Source: TrainCheck (OSDI 2025): such invariants find 18 of 20 silent errors, losses and gradient
norms 2. Known false positives: training that lets replicas drift on purpose and averages them
(local SGD). Blind spots: copies that differed from the first sample on (weights that are no copies
look so), the same error on all copies, parameters that the optimizer does not have, sums of bits
that are equal by chance (1 in 2^32 for single values). Cost: one pass over the parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Place, Verdict
from diagnosis.statistics.evidence_links import question_params
from diagnosis.statistics.sampled_series import named

NAME = "weights_diverged"
KINDS = ("silent_corruption",)
QUESTIONS = ("weight_checksums", "rank_places")
PART = ("stage", "layer", "name", "shard", "place")

EQUAL_BEFORE = 3
"""Samples in which the copies were equal: those that never were are no copies."""

_AXES = ("pp", "dp", "cp", "tp")


@dataclass(frozen=True)
class _Diverged:
    """One part of the weights whose copies differ."""

    part: tuple[Any, ...]
    first: int
    last: int
    num_ranks: int
    odd_ranks: tuple[int, ...]  # in the first of these samples
    num_values: int


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the samples in `tables`; None where no weights have copies with checksums."""
    rows = tables["weight_checksums"].to_pylist()
    if not rows:
        return None
    newest = max(row["step"] for row in rows)
    samples: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        samples.setdefault(tuple(row[name] for name in PART), []).append(row)
    if max(len(rows) for rows in samples.values()) <= EQUAL_BEFORE:
        reason = f"Copies of weights were sampled {EQUAL_BEFORE} times or less: one more is needed."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    diverged = [copies for part, rows in samples.items() if (copies := _diverged(part, rows))]
    if diverged:
        finding = _finding(diverged, tables["rank_places"], newest, attempt)
        return Verdict(NAME, (finding,))
    checked = f"The copies of {len(samples)} parts of the weights stay as equal as they were."
    return Verdict(NAME, checked=checked)


def _diverged(part: tuple[Any, ...], rows: list[dict[str, Any]]) -> _Diverged | None:
    """The samples, in order of steps, from the first one on in which equal copies differ."""
    differs = [row["num_values"] > 1 for row in rows]
    first = differs.index(True) if any(differs) else len(rows)
    if first == len(rows) or first < EQUAL_BEFORE:
        return None
    last = max(at for at, differ in enumerate(differs) if differ)
    row = rows[first]
    return _Diverged(
        part,
        row["step"],
        rows[last]["step"],
        row["num_ranks"],
        tuple(row["odd_ranks"]),
        row["num_values"],
    )


def _finding(diverged: list[_Diverged], places: pa.Table, newest: int, attempt: int) -> Finding:
    diverged = sorted(diverged, key=lambda copies: (copies.first, copies.part))
    begins = diverged[0]
    at_once = [copies for copies in diverged if copies.first == begins.first]
    last = max(copies.last for copies in diverged)
    odd = {rank for copies in at_once for rank in copies.odd_ranks}
    where = named(str(copies.part[2]) for copies in at_once)
    who = f" Rank {min(odd)} has other values than the rest." if len(odd) == 1 else ""
    ongoing = last == newest
    return Finding(
        kind=KINDS[0],
        attempt=attempt,
        severity="urgent" if ongoing else "past",
        confidence="high",
        title="Copies of the weights differ",
        text=f"Since step {begins.first} the weights of {where} are not equal to the bit on "
        f"{begins.num_ranks} ranks that hold the same, and were before.{who}",
        culprits=_culprits(odd, places),
        first_step=begins.first,
        last_step=last,
        ongoing=ongoing,
        evidence=(_evidence(begins, attempt),),
        alternatives=(
            "Replicas that drift on purpose and are averaged now and then (local SGD).",
            "A collective that was left out or ran on other data on one rank: look at its "
            "gradients in the step before.",
        ),
        next_step="Stop, go back to a checkpoint from before that step, and test the device of the "
        "rank that differs (memory errors in its log); compare optimizer states, too.",
        cause="One rank computed, received or stored something else than its copies.",
    )


def _culprits(odd: set[int], places: pa.Table) -> tuple[Place, ...]:
    """The rank that differs, where it is one."""
    if len(odd) != 1:
        return ()
    (rank,) = odd
    row: dict[str, Any] = next((row for row in places.to_pylist() if row["rank"] == rank), {})
    coords = tuple((axis, row[axis]) for axis in _AXES if row.get(axis) is not None)
    return (Place(rank, row.get("host"), coords),)


def _evidence(diverged: _Diverged, attempt: int) -> Evidence:
    params = question_params(diverged.first, diverged.first, attempt, layer=diverged.part[1])
    view = (("page", "timeline"), ("attempt", attempt), ("steps", (diverged.first, diverged.first)))
    return Evidence(
        f"In step {diverged.first} {diverged.num_ranks} ranks have {diverged.num_values} different "
        f"values of {diverged.part[2]}.",
        diverged.num_values,
        "values",
        "weight_checksums",
        params,
        view,
    )
