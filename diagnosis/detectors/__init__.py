"""The registry of detectors, and one module (or package) for each of them: hence so many files.

The module of a detector has its own NAME, the KINDS of findings that it makes, the saved QUESTIONS
whose answers it reads, and `detect`, a pure function from those tables to a Verdict.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Protocol, cast

import pyarrow as pa

from diagnosis.costs import with_costs
from diagnosis.detectors import against_baseline
from diagnosis.detectors.job_slower import NAME as JOB_SLOWER
from diagnosis.detectors.late_at_intervals import NAME as LATE_AT_INTERVALS
from diagnosis.experts.echoes import Against, against_fellows, unknown
from diagnosis.experts.holders import Holders
from diagnosis.findings import Diagnosis, NotEnoughData, Verdict
from diagnosis.in_turn import not_in_turn
from diagnosis.kind_titles import KIND_TITLES
from diagnosis.one_cause import merged
from diagnosis.one_cause.deaths import without_echoes
from diagnosis.one_cause.intervals import said_once
from diagnosis.one_cause.listing import listed
from diagnosis.one_cause.whole_job import unexplained
from diagnosis.statistics.phase_times import phase_times, standing_still
from diagnosis.statistics.replayed_costs import with_replayed_costs
from diagnosis.statistics.straggler_cells import straggler_cells

_LOG = logging.getLogger(__name__)
_LONGEST_REASON = 200

REGISTERED = (
    "first_error",
    "stuck",
    "selftest",
    "slow_worker",
    "few_replicas",
    "late_arrival",
    "slow_stage",
    "data_loader",
    "source_mix",
    "loader_memory",
    "loader_standby",
    "gc_pauses",
    "gc_pauses_of_cells",
    "launch_skew",
    "host_contention",
    "stopped_process",
    "faulty_machine",
    "sequence_imbalance",
    "router_collapse",
    "hot_expert",
    "expert_imbalance",
    "dead_expert",
    "ping_pong_starved",
    "allocator_stalls",
    "jit_spikes",
    "slow_checkpoint",
    "slow_startup",
    "monitor_overhead",
    "slow_op",
    "step_regression",
    "late_now_and_then",
    "late_at_intervals",
    "job_slower",
    "slow_network",
    "link_flap",
    "rotating_skew",
    "clock_unaligned",
    "dead_rank",
    "data_gaps",
    "nonfinite",
    "loss_spike",
    "weights_diverged",
    "logit_growth",
    "attention_entropy_collapse",
    "dead_units",
    "stalled_updates",
)
"""Modules of this folder, in the order in which findings of equal urgency are listed.

Not here: against_baseline, which compares two runs and is called for them alone.
"""

RESERVED_KINDS = (
    "launch_bound",
    "host_memory_pressure",
    "memory_leak",
)
"""Kinds that no detector finds yet. Alternatives that findings name use them already."""

Detect = Callable[[Mapping[str, pa.Table], int], Verdict | None]
"""None: it has nothing to say of a run like this."""


@dataclass(frozen=True)
class Detector:
    """One detector. `questions`: saved ones, asked with step_min, step_max and attempt."""

    name: str
    kinds: tuple[str, ...]
    questions: tuple[str, ...]
    detect: Detect

    def judge(self, tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
        """Its verdict; raises ValueError for a finding of a kind that it does not list."""
        verdict = self.detect(tables, attempt)
        for finding in verdict.findings if verdict else ():
            if finding.kind not in self.kinds:
                raise ValueError(
                    f"detector {self.name} found {finding.kind!r}; its KINDS are: "
                    f"{', '.join(self.kinds)}"
                )
        return verdict


class _Module(Protocol):
    NAME: str
    KINDS: tuple[str, ...]
    QUESTIONS: tuple[str, ...]
    detect: Detect


def detector_of(name: str) -> Detector:
    """The detector of a module of this folder."""
    module = cast(_Module, import_module(f"{__name__}.{name}"))
    return Detector(module.NAME, module.KINDS, module.QUESTIONS, module.detect)


DETECTORS = tuple(map(detector_of, REGISTERED))

KINDS = tuple(
    dict.fromkeys(
        [kind for detector in DETECTORS for kind in detector.kinds]
        + [*against_baseline.KINDS, *RESERVED_KINDS]
    )
)
"""The closed list of what a finding can be."""


catches_errors = True
"""Whether the other verdicts are kept when a detector raises. Off in tests, which then fail."""


def diagnose(
    tables: Mapping[str, pa.Table], attempt: int, chosen: Iterable[Detector] = DETECTORS
) -> Diagnosis:
    """What the detectors (default: all) find in one attempt: each cause once, with its cost. What a
    detector judges that raises an error could not be judged.
    """
    verdicts = (_judged(detector, tables, attempt) for detector in chosen)
    judged = Diagnosis(tuple(verdict for verdict in verdicts if verdict is not None))
    diagnosis = without_echoes(judged)
    if not diagnosis.findings or not {"rank_phases", "rank_places"} <= set(tables):
        return diagnosis
    times = phase_times(tables)
    hosts = dict(zip(times.ranks.rank_R.tolist(), times.ranks.host_R, strict=True))
    against: Against = unknown
    if "expert_places" in tables:
        against = against_fellows(times, Holders(tables["expert_places"]))
    still = partial(standing_still, times)
    merge = partial(merged, hosts=hosts, still=still, against=against)
    diagnosis = said_once(diagnosis, LATE_AT_INTERVALS)
    diagnosis = not_in_turn(unexplained(diagnosis, JOB_SLOWER, merge), times)
    cells = straggler_cells(tables, times.ranks)
    if cells is not None:
        diagnosis = with_replayed_costs(diagnosis, cells.prepared)
    return listed(with_costs(diagnosis, times.step_S, times.window_S))


def _judged(detector: Detector, tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    try:
        return detector.judge(tables, attempt)
    except Exception as error:  # whatever it is, the other verdicts are worth having
        if not catches_errors:
            raise
        _LOG.debug("the detector %s failed", detector.name, exc_info=error)
        message = " ".join(str(error).split())[:_LONGEST_REASON]
        looked_for = ", ".join(KIND_TITLES.get(kind, kind) for kind in detector.kinds)
        reason = (
            f"Not judged, because rankscope has a fault: {looked_for}. The detector raised "
            f"{type(error).__name__}: {message}."
        )
        return Verdict(detector.name, not_enough=(NotEnoughData(detector.name, reason),))
