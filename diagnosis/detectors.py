"""The detectors there are. Each is one module: a name, the kinds it finds, the questions whose
answers it reads, and a pure function from those tables to a Verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from diagnosis import (
    allocator_stalls,
    attention_entropy_collapse,
    busy_hosts,
    cell_pauses,
    clock_unaligned,
    data_gaps,
    data_loader,
    dead_rank,
    dead_units,
    gc_pauses,
    jit_spikes,
    late_arrival,
    late_start,
    link_flap,
    logit_growth,
    loss_spike,
    monitor_overhead,
    moving_skew,
    nonfinite,
    sequence_imbalance,
    slow_checkpoint,
    slow_network,
    slow_op,
    slow_stage,
    slow_worker,
    stalled_updates,
    step_regression,
    weights_diverged,
)
from diagnosis.cells import pauses_apart
from diagnosis.findings import KINDS, Diagnosis, Verdict

Detect = Callable[[Mapping[str, pa.Table], int], Verdict | None]
"""None: it has nothing to say of a run like this."""


@dataclass(frozen=True)
class Detector:
    """One detector. `questions`: ready ones, asked with step_min, step_max and attempt."""

    name: str
    kinds: tuple[str, ...]
    questions: tuple[str, ...]
    detect: Detect

    def __post_init__(self) -> None:
        unknown = set(self.kinds) - set(KINDS)
        if unknown or not self.kinds:
            raise ValueError(f"detector {self.name} finds {unknown or 'nothing'}; see KINDS")


def detectors() -> tuple[Detector, ...]:
    """Every detector, in the order in which findings of equal urgency stand."""
    return (
        Detector(slow_worker.NAME, ("slow_worker",), slow_worker.QUESTIONS, slow_worker.detect),
        Detector(
            late_arrival.NAME, ("slow_worker",), late_arrival.QUESTIONS, late_arrival.detect
        ),
        Detector(slow_stage.NAME, ("slow_stage",), slow_stage.QUESTIONS, slow_stage.detect),
        Detector(data_loader.NAME, ("data_loader",), data_loader.QUESTIONS, data_loader.detect),
        Detector(gc_pauses.NAME, ("gc_pauses",), gc_pauses.QUESTIONS, gc_pauses.detect),
        Detector(cell_pauses.NAME, ("gc_pauses",), cell_pauses.QUESTIONS, cell_pauses.detect),
        Detector(
            late_start.NAME, ("launch_skew", "host_contention", "slow_worker"),
            late_start.QUESTIONS, late_start.detect,
        ),
        Detector(busy_hosts.NAME, (busy_hosts.KIND,), busy_hosts.QUESTIONS, busy_hosts.detect),
        Detector(
            sequence_imbalance.NAME, ("sequence_imbalance",), sequence_imbalance.QUESTIONS,
            sequence_imbalance.detect,
        ),
        Detector(
            allocator_stalls.NAME, ("allocator_stalls",), allocator_stalls.QUESTIONS,
            allocator_stalls.detect,
        ),
        Detector(jit_spikes.NAME, ("jit_spikes",), jit_spikes.QUESTIONS, jit_spikes.detect),
        Detector(
            slow_checkpoint.NAME, ("slow_checkpoint",), slow_checkpoint.QUESTIONS,
            slow_checkpoint.detect,
        ),
        Detector(
            monitor_overhead.NAME, ("monitor_overhead",), monitor_overhead.QUESTIONS,
            monitor_overhead.detect,
        ),
        Detector(slow_op.NAME, ("slow_op",), slow_op.QUESTIONS, slow_op.detect),
        Detector(
            step_regression.NAME, ("step_regression",), step_regression.QUESTIONS,
            step_regression.detect,
        ),
        Detector(
            slow_network.NAME, slow_network.KINDS, slow_network.QUESTIONS, slow_network.detect
        ),
        Detector(link_flap.NAME, ("link_flap",), link_flap.QUESTIONS, link_flap.detect),
        Detector(moving_skew.NAME, ("launch_skew",), moving_skew.QUESTIONS, moving_skew.detect),
        Detector(
            clock_unaligned.NAME, ("clock_unaligned",), clock_unaligned.QUESTIONS,
            clock_unaligned.detect,
        ),
        Detector(dead_rank.NAME, dead_rank.KINDS, dead_rank.QUESTIONS, dead_rank.detect),
        Detector(data_gaps.NAME, ("data_gaps",), data_gaps.QUESTIONS, data_gaps.detect),
        Detector(nonfinite.NAME, ("nonfinite",), nonfinite.QUESTIONS, nonfinite.detect),
        Detector(loss_spike.NAME, ("loss_spike",), loss_spike.QUESTIONS, loss_spike.detect),
        Detector(
            weights_diverged.NAME, (weights_diverged.KIND,), weights_diverged.QUESTIONS,
            weights_diverged.detect,
        ),
        Detector(
            logit_growth.NAME, ("logit_growth",), logit_growth.QUESTIONS, logit_growth.detect
        ),
        Detector(
            attention_entropy_collapse.NAME, ("attention_entropy_collapse",),
            attention_entropy_collapse.QUESTIONS, attention_entropy_collapse.detect,
        ),
        Detector(dead_units.NAME, ("dead_units",), dead_units.QUESTIONS, dead_units.detect),
        Detector(
            stalled_updates.NAME, ("stalled_updates",), stalled_updates.QUESTIONS,
            stalled_updates.detect,
        ),
    )  # fmt: skip


def diagnose(
    tables: Mapping[str, pa.Table], attempt: int, chosen: Iterable[Detector] | None = None
) -> Diagnosis:
    """What the detectors (default: all) say of one attempt."""
    asked = detectors() if chosen is None else tuple(chosen)
    told_apart = pauses_apart(tables)
    said = (detector.detect(told_apart, attempt) for detector in asked)
    return Diagnosis(tuple(verdict for verdict in said if verdict is not None))
