"""clock_unaligned: clocks of hosts are off, jump or drift, which the ends of collectives show.

No member of an all-reduce leaves before all have come, so on equal clocks all see its end at
nearly the same moment. Hosts that see ends earlier or later than the others by more than a
transfer have a clock that is off by so much: by a constant, from some step on (a jump), or by more
and more (a drift). Groups that share hosts are joined by least squares
(diagnosis/clocks/offset_graph.py), in blocks of steps. Hosts are named where most others agree;
else all clocks differ and none is known to be right.

With such clocks nobody is named from timing across ranks.

Source: Doleschal et al. (diagnosis/clocks/alignment.py). Assumes: ranks of
one host share its clock. Known false positives: a host that always polls ends late. Blind spots:
clocks off by less than a millisecond where they are known and 5 ms where not; jobs on one machine,
whose clock is one; times that restart in every step. Cost: one row per block of steps, group and
host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diagnosis.clocks.alignment import LARGEST_ERR_NS
from diagnosis.clocks.offset_graph import Ties, largest_part, least_squares
from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict
from diagnosis.statistics.evidence_links import first_two, question_params, timeline_view
from diagnosis.statistics.rank_tables import Floats, Ints, Ranks, placed
from diagnosis.statistics.shared_location import place_of
from diagnosis.statistics.units import when_text

NAME = "clock_unaligned"
KINDS = ("clock_unaligned",)
QUESTIONS = ("end_lateness", "clock_error", "rank_places")

LEAST_MS = 1.0
"""Ends of members of one kernel lie microseconds apart, those of threads that poll up to a ms."""
TIMES_ERROR = 5.0
"""Beyond what is stated of the alignment, which is two standard deviations."""
UNKNOWN_MS = LARGEST_ERR_NS / 1e6
"""Where nothing is known of the clocks: less than this still leaves the waiting of steps visible.
"""
FEWEST_BLOCKS = 2
ONE_CLOCK = "same_host"
"""Of ranks that read the clock of rank 0 itself, as containers of one machine do: there ends differ
for lack of cores only. Source: clock_domain in trace_hooks/job/process_info.py."""


@dataclass(frozen=True)
class _Clocks:
    """The clocks of H hosts by their ends in B blocks of steps; NaN unknown."""

    hosts: tuple[str, ...]
    off_HB: Floats  # ms to add to the host's times to agree with most
    allowed_H: Floats  # ms
    first_step_B: Ints
    last_step_B: Ints
    is_known: bool


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    ranks = placed(_ranks(tables["rank_places"]), tables["rank_places"])
    if len(set(ranks.host_R)) < 2:
        return None
    if set(tables["clock_error"]["method"].to_pylist()) == {ONE_CLOCK}:
        return Verdict(NAME, checked="All hosts read the same clock.", of_data=True)
    if not tables["end_lateness"].num_rows:
        reason = (
            "No collective of ranks of several hosts was recorded whole: clocks are not checked."
        )
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    clocks = _clocks(tables)
    off_H = _is_off(clocks)
    if not off_H.any():
        most = float(np.nanmax(np.abs(clocks.off_HB)))
        return Verdict(
            NAME,
            checked=f"Hosts see collectives end within {most:.3f} ms of each other.",
            of_data=True,
        )
    return Verdict(NAME, (_finding(clocks, off_H, ranks, attempt),))


def _ranks(places: pa.Table) -> Ints:
    return np.sort(places["rank"].to_numpy().astype(np.int64))


def _clocks(tables: Mapping[str, pa.Table]) -> _Clocks:
    ends = tables["end_lateness"]
    hosts, host_N = np.unique(ends["host"].to_pylist(), return_inverse=True)
    blocks, block_N = np.unique(ends["block"].to_numpy(), return_inverse=True)
    group_N = np.unique(ends["group_id"].to_numpy(), return_inverse=True)[1]
    late_N = ends["late_ms"].to_numpy()
    transfer_N = ends["transfer_ms"].to_numpy()
    noise_N = np.fmax(np.nan_to_num(transfer_N), LEAST_MS)
    off_HB = np.full((hosts.size, blocks.size), np.nan)
    first_B, last_B = np.zeros(blocks.size, np.int64), np.zeros(blocks.size, np.int64)
    for b in range(blocks.size):
        rows = np.flatnonzero(block_N == b)
        first_B[b] = ends["first_step"].to_numpy()[rows].min()
        last_B[b] = ends["last_step"].to_numpy()[rows].max()
        ties = Ties(group_N[rows], host_N[rows], late_N[rows], noise_N[rows], hosts.size)
        part = largest_part(ties)
        off_H = least_squares(ties)
        off_HB[part, b] = off_H[part] - _agreed(off_H[part])
    known = all(ends["is_aligned"].to_pylist())
    return _Clocks(
        tuple(hosts.tolist()),
        off_HB,
        _allowed(tables, hosts.tolist(), host_N, noise_N, known),
        first_B,
        last_B,
        known,
    )


def _agreed(off_H: Floats) -> float:
    """Where most lie closest together: the middle of the shortest range that holds half of them;
    of two the first.
    """
    if off_H.size == 2:
        return float(off_H[0])
    sorted_H = np.sort(off_H)
    half = sorted_H.size // 2 + 1
    ranges = sorted_H[half - 1 :] - sorted_H[: sorted_H.size - half + 1]
    start = int(np.argmin(ranges))
    return float(np.median(sorted_H[start : start + half]))


def _allowed(
    tables: Mapping[str, pa.Table], hosts: list[str], host_N: Ints, noise_N: Floats, known: bool
) -> Floats:
    """How far each host's clock may seem off, ms: its best group and the stated error count."""
    best_H: Floats = np.array([noise_N[host_N == h].min() for h in range(len(hosts))])
    if not known:
        return np.maximum(best_H, UNKNOWN_MS)
    err_of: dict[str, float] = {}
    for row in tables["clock_error"].to_pylist():
        host = row["host"] or f"rank {row['rank']}"
        err_of[host] = max(err_of.get(host, 0.0), (row["err_us"] or 0.0) / 1e3)
    worst_ms = max(err_of.values(), default=0.0)  # the reference's own error is 0
    return np.maximum(best_H, TIMES_ERROR * worst_ms)


def _is_off(clocks: _Clocks) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    with np.errstate(invalid="ignore"):
        off_HB = np.abs(clocks.off_HB) > clocks.allowed_H[:, None]
    known_H = np.isfinite(clocks.off_HB).sum(axis=1)
    least_H = np.minimum(FEWEST_BLOCKS, np.maximum(known_H, 1))
    is_off: np.ndarray[tuple[int], np.dtype[np.bool_]] = off_HB.sum(axis=1) >= least_H
    return is_off


def _finding(
    clocks: _Clocks, off_H: np.ndarray[tuple[int], np.dtype[np.bool_]], ranks: Ranks, attempt: int
) -> Finding:
    with np.errstate(invalid="ignore"):
        off_HB = (np.abs(clocks.off_HB) > clocks.allowed_H[:, None]) & off_H[:, None]
    blocks = np.flatnonzero(off_HB.any(axis=0))
    first, last = int(clocks.first_step_B[blocks[0]]), int(clocks.last_step_B[blocks[-1]])
    ongoing = blocks[-1] == clocks.last_step_B.size - 1
    named = tuple(host for host, off in zip(clocks.hosts, off_H, strict=True) if off)
    if 2 * len(named) >= len(clocks.hosts):  # nobody knows who is right
        named = ()
    worst = int(np.nanargmax(np.nanmax(np.abs(np.where(off_HB, clocks.off_HB, 0)), axis=1)))
    most_ms = float(np.nanmax(np.abs(clocks.off_HB[worst])))
    rows = [
        row
        for row, host in enumerate(ranks.host_R)
        if (host or f"rank {ranks.rank_R[row]}") in named
    ]
    who = f"Clocks of {', '.join(named)}" if named else "Clocks of the hosts"
    how = _how(clocks.off_HB[worst], float(clocks.allowed_H[worst]))
    stated = (
        "although the clocks count as aligned"
        if clocks.is_known
        else "and the clocks are not aligned"
    )
    since = when_text(first, last, ongoing)
    return Finding(
        kind="clock_unaligned",
        attempt=attempt,
        severity="warning" if ongoing else "past",
        confidence="high",
        title=f"{who} are off by up to {most_ms:,.1f} ms",
        text=f"Hosts see the same collectives end at times that differ by {how} {since}, {stated}: "
        "times of different hosts do not show which rank is late.",
        culprits=tuple(place_of(ranks, row) for row in rows),
        first_step=first,
        last_step=last,
        ongoing=bool(ongoing),
        evidence=_evidence(clocks, worst, attempt, (first, last), ranks),
        alternatives=(
            "A host that sees the end of collectives late by itself (a polling thread without a "
            "core).",
        ),
        next_step="Keep the hosts' clocks together (chrony or PTP against one server) and look at "
        "their logs for steps of the clock; record with the store's clock exchange switched on.",
        hosts=named,
        cause=f"{who} differ: members of one collective see its end at different times.",
    )


def _how(off_B: Floats, allowed_ms: float) -> str:
    known_B = off_B[np.isfinite(off_B)]
    change = known_B[-1] - known_B[0]
    if abs(change) <= allowed_ms:
        return f"a constant {abs(float(np.median(known_B))):,.1f} ms"
    steps = np.abs(np.diff(known_B))
    word = "a jump" if steps.max() > 0.8 * abs(change) else "a drift"
    return f"{word} from {known_B[0]:,.1f} to {known_B[-1]:,.1f} ms"


def _evidence(
    clocks: _Clocks, worst: int, attempt: int, steps: tuple[int, int], ranks: Ranks
) -> tuple[Evidence, ...]:
    params = question_params(steps[0], steps[1], attempt)
    host, off_B = clocks.hosts[worst], clocks.off_HB[worst]
    shown = next(
        (int(ranks.rank_R[row]) for row, own in enumerate(ranks.host_R) if own == host),
        int(ranks.rank_R[0]),
    )
    most_ms = float(off_B[int(np.nanargmax(np.abs(off_B)))])
    link = timeline_view(attempt, shown, (shown,), first_two(steps[0], steps[1]))
    return (
        Evidence(
            f"{host} sees collectives end {abs(most_ms):,.2f} ms "
            f"{'earlier' if most_ms > 0 else 'later'} than most hosts of its groups; "
            f"{clocks.allowed_H[worst]:.2f} ms would be within transfer and stated error.",
            round(most_ms, 4),
            "ms",
            "end_lateness",
            params,
            link,
        ),
    )
