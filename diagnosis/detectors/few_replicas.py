"""slow_worker: a rank of a job with two or three replicas computes longer than the same stage of
the others, and the other stages of its replica do not.

slow_worker/ compares ranks without three peers with their own past, so it does not see one that is
slow from the first step on. Here their replicas are compared with each other, stage by stage
(diagnosis/statistics/replicas.py).

Source: the rule is ours. Assumes: pipelines of three stages or more, whose replicas hold the same
layers. Known false positives: a stage whose work depends on the data in another way than that of
the others (experts, a loss over a long vocabulary), where one replica always gets such data. Blind
spots: two stages; a whole replica or stage that is slow. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, Verdict
from diagnosis.statistics.episodes import MIN_VOTES
from diagnosis.statistics.evidence_links import first_two, pipeline_view, question_params
from diagnosis.statistics.late_ranks import Late, culprits, lates_of, worth_telling
from diagnosis.statistics.own_work import own_work
from diagnosis.statistics.peers import NOISE_MADS, Work, peers_of, work_of
from diagnosis.statistics.phase_findings import Lost, Words, finding_of
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, middle, phase_times
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.replicas import beyond_replicas, without_halves
from diagnosis.statistics.units import steps_text

NAME = "few_replicas"
KINDS = ("slow_worker",)
QUESTIONS = ("rank_phases", "rank_places", "rank_work")


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`: answers of QUESTIONS; None where every rank has three peers
    or replicas cannot be compared.
    """
    times, work = phase_times(tables), own_work(work_of(tables))
    peers = peers_of(work.ranks)
    excess_RS = beyond_replicas(work, peers.whom_R == "own past")
    known_R = np.isfinite(excess_RS).sum(axis=1) >= MIN_VOTES
    if not known_R.any() or (times.waits_hidden and work.measure != "forward"):
        return None
    lates, minor = worth_telling(times, _slow(times, work, excess_RS))
    findings = tuple(_finding(times, work, late, attempt) for late in lates)
    checked = (
        f"No {'other ' if findings else ''}rank of {int(known_R.sum())} without three peers was "
        f"slower than the same stage of other replicas, and than its own replica is otherwise, by "
        f"{200 * MIN_EXCESS:.0f} %."
    )
    return Verdict(NAME, findings, checked, set_aside=tuple(minor))


def _slow(times: PhaseTimes, work: Work, excess_RS: Floats) -> list[Late]:
    """Those that are slow for a while, few of each replica; `share`: of a step."""
    jumps = middle(np.abs(np.diff(excess_RS, axis=1))) / np.sqrt(2)
    threshold_R = np.full(len(excess_RS), np.fmax(NOISE_MADS * jumps, MIN_EXCESS))
    everyone_R = np.zeros(len(excess_RS), np.int64)
    slower_RS = np.maximum(excess_RS, 0.0)  # the peers of a slow rank look quick, and swing not
    lates = lates_of(slower_RS, threshold_R)
    lates = culprits(slower_RS, everyone_R, lates, threshold_R)
    few = without_halves(work.ranks, {late.row for late in lates})
    return [replace(late, share=_lost(times, work, late)) for late in lates if late.row in few]


def _lost(times: PhaseTimes, work: Work, late: Late) -> float:
    """What it computes longer, as a share of a step."""
    compute_ms = middle(work.wall_RS[late.row, late.span])
    longer_ms = compute_ms * late.episode.excess / (1 + late.episode.excess)
    return min(longer_ms / middle(times.window_S[late.span]), 1.0)


def _finding(times: PhaseTimes, work: Work, late: Late, attempt: int) -> Finding:
    lost = Lost((late.row,), late.episode, late.share, late.row)
    rank = int(work.ranks.rank_R[late.row])
    finding = finding_of(times, lost, attempt, _words(rank))
    first, last = finding.first_step, finding.last_step
    evidence = Evidence(
        f"It computes {1 + late.episode.excess:.2f}x as long as the same stage of the other "
        f"replicas, relative to the other stages of its replica, in {steps_text(first, last)}.",
        round(1 + late.episode.excess, 4),
        "x",
        "rank_work",
        question_params(first, last, attempt),
        pipeline_view(work.ranks, late.row, attempt, first_two(first, last)),
    )
    return replace(
        finding,
        slowdown=round(1 + late.episode.excess, 4),
        evidence=(evidence, *finding.evidence[:1]),
    )


def _words(rank: int) -> Words:
    return Words(
        "slow_worker",
        f"Rank {rank} is slow",
        "to longer compute",
        f"Rank {rank} takes longer to compute the same work than the same stage of the other "
        "replicas, and the other stages of its replica do not.",
        (
            "More work in this stage of this replica alone, as where experts or long vocabularies "
            "make work depend on the data.",
            "Another process on its host (host contention), where CPU time was not recorded.",
        ),
        f"Look at the device of rank {rank}: its clocks and throttle reasons (nvidia-smi -q -d "
        "PERFORMANCE); run the same matrix product on it and on the same stage of another replica.",
        confidence="medium",
        past=f"Rank {rank} was slow",
    )
