"""gc_pauses of StragglerAnalysis traces: forwards pause, on a different cell each time.

Such traces have no collections of their own, only compute: Python collects while it launches, so
that a pause lies in a forward and not in a backward, and hits another cell each time. How often and
where is found for all steps (diagnosis/whatif/uneven_compute.py); a step counts by the longest of
its pauses, and what they cost is a replay with them and without.

Source: root-cause patterns of the what-if study (2505.05713), whose own rules do not name them.
Assumes: forwards of one micro-batch and cell take equally long from step to step. Known false
positives: anything else that stops single forwards on a different cell each time. Blind spots:
pauses of less than half a forward; of one cell alone; now and then, which fill no 4 steps. Cost:
two replays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, Verdict
from diagnosis.statistics.episodes import Episode, episodes
from diagnosis.statistics.phase_findings import Lost, Words, finding_of, steps_missing
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, phase_times
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.straggler_cells import CELLS, straggler_cells
from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.replay import Scenarios, step_times
from diagnosis.whatif.uneven_compute import Pauses

NAME = "gc_pauses_of_cells"
KINDS = ("gc_pauses",)
QUESTIONS = (CELLS, "rank_phases", "rank_places")


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`: answers of QUESTIONS; None of any other run."""
    times = phase_times(tables)
    cells = straggler_cells(tables, times.ranks)
    if cells is None:
        return None
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    findings = _findings(times, cells.prepared, cells.pauses, attempt) if cells.pauses else []
    checked = (
        f"No {'other ' if findings else ''}pauses in forward passes, in a different cell each "
        f"time, that cost {100 * MIN_EXCESS:.0f} % of a step."
    )
    return Verdict(NAME, tuple(findings), checked)


def _findings(times: PhaseTimes, prepared: Prepared, paused: Pauses, attempt: int) -> list[Finding]:
    at_S = np.searchsorted(times.step_S, prepared.ops.step_S)
    window_S = times.window_S[at_S] / 1e3
    longest_S = paused.pause_NSD.max(axis=(0, 2))
    share_S = _lost(prepared, paused) / window_S
    findings = []
    for episode in episodes(longest_S / window_S, MIN_EXCESS):
        share = float(np.mean(share_S[episode.first : episode.last + 1]))
        if share >= MIN_EXCESS:
            in_run = Episode(int(at_S[episode.first]), int(at_S[episode.last]), share)
            longest_ms = float(1e3 * np.median(longest_S[episode.first : episode.last + 1]))
            findings.append(_finding(times, in_run, paused, longest_ms, attempt))
    return findings


def _lost(prepared: Prepared, paused: Pauses) -> Floats:
    """What each step is longer for its pauses, s."""
    without_OSD = prepared.own_OSD.copy()
    without_OSD[paused.members] -= paused.pause_NSD
    everywhere = Scenarios(1, [(0,)] * len(prepared.ideal_O))
    real_S, without_S = (
        step_times(prepared.graph, own_OSD, prepared.ideal_O, everywhere)[0][0]
        for own_OSD in (prepared.own_OSD, without_OSD)
    )
    lost_S: Floats = real_S - without_S
    return lost_S


def _finding(
    times: PhaseTimes, episode: Episode, paused: Pauses, longest_ms: float, attempt: int
) -> Finding:
    finding = finding_of(times, Lost((), episode, episode.excess, 0), attempt, _WORDS)
    more = Evidence(
        f"{paused.text[0].upper()}{paused.text[1:]}. The longest of a step takes "
        f"{longest_ms:.3g} ms, the median of these steps.",
        round(longest_ms, 3),
        "ms",
        CELLS,
        finding.evidence[0].params,
        finding.evidence[0].view,
    )
    return replace(finding, evidence=(*finding.evidence, more))


_WORDS = Words(
    "gc_pauses",
    "Pauses stop one cell after the other",
    "to pauses in forward passes",
    "Something stops the host in the middle of a forward pass, in another cell each time, as "
    "Python's garbage collector does, and the others wait.",
    (
        "Anything else that stops a host now and then: the trace does not name collections, so the "
        "place of the pauses is the only sign of them.",
    ),
    "Freeze long-lived objects (gc.freeze after setup), turn automatic collection off, and "
    "collect on all ranks in the same step every few hundred steps.",
    question=CELLS,
    confidence="medium",
)
