"""The registry of detectors, and one module (or package) for each of them: hence so many files.

A detector has a name, the kinds that it finds, the saved queries whose answers it reads, and a pure
function from those tables to a Verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from diagnosis.detectors import (
    allocator_stalls,
    attention_entropy_collapse,
    clock_unaligned,
    data_gaps,
    data_loader,
    dead_rank,
    dead_units,
    gc_pauses,
    gc_pauses_of_cells,
    host_contention,
    jit_spikes,
    late_arrival,
    launch_skew,
    link_flap,
    logit_growth,
    loss_spike,
    monitor_overhead,
    nonfinite,
    rotating_skew,
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
from diagnosis.findings import KINDS, Diagnosis, Verdict
from diagnosis.statistics.cells import pauses_apart

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


class _Module(Protocol):
    @property
    def NAME(self) -> str: ...

    @property
    def QUESTIONS(self) -> tuple[str, ...]: ...

    def detect(self, tables: Mapping[str, pa.Table], attempt: int, /) -> Verdict | None: ...


def detectors() -> tuple[Detector, ...]:
    """Every detector, in the order in which findings of equal urgency stand."""
    return (
        _of(slow_worker),
        _of(late_arrival, "slow_worker"),
        _of(slow_stage),
        _of(data_loader),
        _of(gc_pauses),
        _of(gc_pauses_of_cells, "gc_pauses"),
        _of(launch_skew, "launch_skew", "host_contention", "slow_worker"),
        _of(host_contention, host_contention.KIND),
        _of(sequence_imbalance),
        _of(allocator_stalls),
        _of(jit_spikes),
        _of(slow_checkpoint),
        _of(monitor_overhead),
        _of(slow_op),
        _of(step_regression),
        _of(slow_network, *slow_network.KINDS),
        _of(link_flap),
        _of(rotating_skew, "launch_skew"),
        _of(clock_unaligned),
        _of(dead_rank, *dead_rank.KINDS),
        _of(data_gaps),
        _of(nonfinite),
        _of(loss_spike),
        _of(weights_diverged, weights_diverged.KIND),
        _of(logit_growth),
        _of(attention_entropy_collapse),
        _of(dead_units),
        _of(stalled_updates),
    )


def _of(module: _Module, *kinds: str) -> Detector:
    """The detector of a module; it finds what it is named for where no other `kinds` are given."""
    return Detector(module.NAME, kinds or (module.NAME,), module.QUESTIONS, module.detect)


def diagnose(
    tables: Mapping[str, pa.Table], attempt: int, chosen: Iterable[Detector] | None = None
) -> Diagnosis:
    """What the detectors (default: all) say of one attempt."""
    asked = detectors() if chosen is None else tuple(chosen)
    told_apart = pauses_apart(tables)
    said = (detector.detect(told_apart, attempt) for detector in asked)
    return Diagnosis(tuple(verdict for verdict in said if verdict is not None))
