"""allocator_stalls: the device allocator runs out of cached memory, frees it and asks again.

The caching allocator counts such retries: all of its unused blocks go back to the device, which
waits for all that runs there, and are allocated again. A rank on which the count rises in a step is
compared with what it does in the steps around that have none: what its steps with a retry take
longer outside of communication is what stands still, and all others wait for the rank with most.

Source: torch.cuda.memory_stats, num_alloc_retries.
Assumes: memory is recorded at the end of each step. Known false positives: none of retries; in a
job that also compiles for new shapes, which asks for other blocks, the same steps compile. Blind
spots: CPU jobs and imports, which count none; allocators of libraries. Cost: one pass over
the cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict
from diagnosis.statistics.episodes import OVER_AFTER_STEPS, Episode
from diagnosis.statistics.phase_findings import Lost, Words, finding_of, steps_missing
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, phase_times
from diagnosis.statistics.rank_tables import Bools, Floats
from diagnosis.statistics.running_median import running_medians
from diagnosis.statistics.units import named_ranks

NAME = "allocator_stalls"
KINDS = ("allocator_stalls",)
QUESTIONS = ("allocator_retries", "rank_phases", "rank_places")

FEWEST_RETRIES = 3
"""Steps of a rank with retries: one or two may be the job growing into its memory."""

WARM_UP_STEPS = 3
"""In the first steps a job grows into its memory."""

MOST_NAMED = 0.5
"""Where more than this share of the ranks stalls, the job is meant, not its ranks."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`: answers of QUESTIONS; None where no allocator retried."""
    times = phase_times(tables)
    retried_RS = retried_steps(tables["allocator_retries"], times)
    if not retried_RS.any():
        return None
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    if times.waits_hidden:
        reason = (
            "The log has no communication: standing still cannot be distinguished from waiting."
        )
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    stalled_RS = _stalled(times, retried_RS)
    rows = np.flatnonzero((stalled_RS[:, WARM_UP_STEPS:] > 0).sum(axis=1) >= FEWEST_RETRIES)
    finding = _finding(times, stalled_RS, rows.tolist(), attempt) if rows.size else None
    checked = f"No retries of the device allocator that take {100 * MIN_EXCESS:.0f} % of a step."
    return Verdict(NAME, () if finding is None else (finding,), None if finding else checked)


def retried_steps(retries: pa.Table, times: PhaseTimes) -> Bools:
    """Which ranks retried in which steps, (R, S), of the answer of `allocator_retries`."""
    rank_N, step_N = (np.asarray(retries[name].to_numpy(), np.int64) for name in ("rank", "step"))
    known_N = np.isin(rank_N, times.ranks.rank_R) & np.isin(step_N, times.step_S)
    found_RS = np.zeros((times.ranks.rank_R.size, times.step_S.size), np.bool_)
    rows = np.searchsorted(times.ranks.rank_R, rank_N[known_N])
    found_RS[rows, np.searchsorted(times.step_S, step_N[known_N])] = True
    return found_RS


def _stalled(times: PhaseTimes, retried_RS: Bools) -> Floats:
    """What each rank stands still in its steps with retries, ms: beyond its steps around."""
    own_RS = np.nansum([times.phases[name] for name in ("compute", "stretch", "rest")], axis=0)
    quiet_RS = np.where(retried_RS, np.nan, own_RS)
    longer_RS = own_RS - running_medians(quiet_RS)
    return np.where(retried_RS, np.nan_to_num(np.maximum(longer_RS, 0.0)), 0.0)


def _finding(
    times: PhaseTimes, stalled_RS: Floats, rows: list[int], attempt: int
) -> Finding | None:
    """The one finding, from the first step that stalls to the last; None where it costs little."""
    worst_S = stalled_RS[rows].max(axis=0)
    columns = np.flatnonzero(worst_S > 0)
    first, last = int(columns[0]), int(columns[-1])
    gap = int(np.diff(columns).max())
    if times.step_S.size - 1 - last < OVER_AFTER_STEPS + gap:
        last = times.step_S.size - 1
    span = slice(first, last + 1)
    if not np.median((worst_S / times.window_S)[columns]) >= MIN_EXCESS:
        return None
    share = float(worst_S[span].sum() / np.nansum(times.window_S[span]))
    named = rows if len(rows) <= MOST_NAMED * times.ranks.rank_R.size else []
    shown = rows[int(stalled_RS[rows].sum(axis=1).argmax())]
    lost = Lost(tuple(named), Episode(first, last, share), share, shown)
    finding = finding_of(times, lost, attempt, _words(times, named))
    rank, num = int(times.ranks.rank_R[shown]), int((stalled_RS[shown] > 0).sum())
    stalls = Evidence(
        f"The allocator of rank {rank} retried in {num} steps, which take "
        f"{float(np.median(stalled_RS[shown][stalled_RS[shown] > 0])):.3g} ms longer than those "
        "around them.",
        float(num),
        "steps",
        "allocator_retries",
        finding.evidence[0].params,
        finding.evidence[0].view,
    )
    return replace(finding, evidence=(stalls, *finding.evidence))


def _words(times: PhaseTimes, rows: list[int]) -> Words:
    who = named_ranks(times.ranks.rank_R[rows]) if rows else "the ranks"
    return Words(
        "allocator_stalls",
        f"The device allocator stalls {who}",
        "on average to steps in which the allocator frees its memory and asks again",
        f"The device of {who} is nearly full: its allocator gives cached blocks back and asks for "
        "others, which waits for all work of the device.",
        ("New shapes, for which the same steps also compile.",),
        "Lower the peak (smaller micro-batches, more recomputation), or let blocks grow "
        "(PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True); compare reserved with allocated.",
    )
