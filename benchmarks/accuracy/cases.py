"""The jobs to judge: each has its own name and seed, so that one can be generated again."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from sample_traces.generate import faults
from sample_traces.generate.labelled import drawn_log, drawn_trace
from sample_traces.generate.labelled.doses import DOSES
from sample_traces.generate.labelled.drawn import LabelledJob, draw_healthy, draw_labelled
from sample_traces.generate.labelled.drawn_log import LabelledLog, draw_log
from sample_traces.generate.labelled.drawn_trace import LabelledTrace, draw_trace
from sample_traces.generate.labelled.worlds import LOG_WORLDS

NATIVE, TRACE = "native", "trace"
"""Our own tables; the StragglerAnalysis schema."""
WORLDS = (NATIVE, TRACE, *LOG_WORLDS)
"""How jobs behave and what is recorded of them (docs/fault-benchmark.md)."""
HEALTHY = "healthy"
ANY_DOSE = "any"
"""Of kinds whose dose lengthens no step."""

_NAME = re.compile(rf"({'|'.join(WORLDS)})-([a-z_]+)-([a-z]+)-(\d+)")
_KINDS = {NATIVE: tuple(faults.KINDS), TRACE: drawn_trace.KINDS} | dict.fromkeys(
    LOG_WORLDS, drawn_log.KINDS
)
_HEALTHY_SHARE = {NATIVE: 1.0, TRACE: 0.25}
"""Healthy jobs of a world as a share of what is asked for; others: all."""


@dataclass(frozen=True)
class Case:
    """One job to judge. `dose`: loud, quiet, masked, or ANY_DOSE."""

    world: str
    kind: str
    dose: str
    number: int
    seed: int

    @property
    def name(self) -> str:
        """As --case takes it."""
        return f"{self.world}-{self.kind}-{self.dose}-{self.number}"

    def drawn(self) -> LabelledJob | LabelledTrace | LabelledLog:
        """The job; the same whatever else is judged."""
        seed = (self.seed << 32) + zlib.crc32(self.name.encode())
        planted = None if self.kind == HEALTHY else self.kind
        if self.world in LOG_WORLDS:
            return draw_log(LOG_WORLDS[self.world], planted, self.dose, seed)
        if self.world == TRACE:
            return draw_trace(planted, self.dose, seed)
        return draw_labelled(planted, self.dose, seed) if planted else draw_healthy(seed)


def cases(
    seed: int, per_dose: int, num_healthy: int, kinds: Collection[str], worlds: Collection[str]
) -> list[Case]:
    """All jobs of a run of the benchmark; `kinds`: none are all.

    In the order of a draw, so that a run that is cut short has a fair sample.
    """
    drawn = [
        Case(world, kind, dose, number, seed)
        for world in WORLDS
        if world in worlds
        for kind in _KINDS[world]
        if not kinds or kind in kinds
        for dose in _doses_of(kind)
        for number in range(per_dose)
    ]
    for world in WORLDS:
        if world in worlds and (not kinds or HEALTHY in kinds):
            wanted = int(num_healthy * _HEALTHY_SHARE.get(world, 1.0))
            drawn += [Case(world, HEALTHY, ANY_DOSE, number, seed) for number in range(wanted)]
    order = np.random.default_rng(seed).permutation(len(drawn))
    return [drawn[index] for index in order]


def _doses_of(kind: str) -> tuple[str, ...]:
    has_time = kind not in faults.KINDS or (faults.KINDS[kind].dose and kind != "clock_unaligned")
    return tuple(DOSES) if has_time else (ANY_DOSE,)


def case_named(name: str, seed: int) -> Case:
    """The case of --case; raises ValueError."""
    parts = _NAME.fullmatch(name)
    if parts is None or parts[2] not in (*_KINDS[parts[1]], HEALTHY):
        raise ValueError(f"there is no case {name!r}; a name is like native-slow_worker-loud-3")
    return Case(parts[1], parts[2], parts[3], int(parts[4]), seed)
