"""The jobs to judge: each has its own name and seed, so that one can be generated again."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from sample_traces.generate.faults import KINDS
from sample_traces.generate.labelled import drawn_trace
from sample_traces.generate.labelled.doses import DOSES
from sample_traces.generate.labelled.drawn import LabelledJob, draw_healthy, draw_labelled
from sample_traces.generate.labelled.drawn_trace import LabelledTrace, draw_trace

NATIVE, TRACE = "native", "trace"
"""Our own tables; the StragglerAnalysis schema."""
HEALTHY = "healthy"
ANY_DOSE = "any"
"""Of kinds whose dose lengthens no step."""

_NAME = re.compile(r"(native|trace)-([a-z_]+)-([a-z]+)-(\d+)")


@dataclass(frozen=True)
class Case:
    """One job to judge. `dose`: loud, quiet, masked, or ANY_DOSE."""

    schema: str
    kind: str
    dose: str
    number: int
    seed: int

    @property
    def name(self) -> str:
        """As --case takes it."""
        return f"{self.schema}-{self.kind}-{self.dose}-{self.number}"

    def drawn(self) -> LabelledJob | LabelledTrace:
        """The job; the same whatever else is judged."""
        seed = (self.seed << 32) + zlib.crc32(self.name.encode())
        if self.schema == TRACE:
            return draw_trace(None if self.kind == HEALTHY else self.kind, self.dose, seed)
        if self.kind == HEALTHY:
            return draw_healthy(seed)
        return draw_labelled(self.kind, self.dose, seed)


def cases(
    seed: int, per_dose: int, num_healthy: int, kinds: Collection[str], schemas: Collection[str]
) -> list[Case]:
    """All jobs of a run of the benchmark; `kinds`: none are all.

    In the order of a draw, so that a run that is cut short has a fair sample.
    """
    drawn = [
        Case(schema, kind, dose, number, seed)
        for schema, known in ((NATIVE, KINDS), (TRACE, drawn_trace.KINDS))
        if schema in schemas
        for kind in known
        if not kinds or kind in kinds
        for dose in _doses_of(kind)
        for number in range(per_dose)
    ]
    for schema, wanted in ((NATIVE, num_healthy), (TRACE, num_healthy // 4)):
        if schema in schemas and (not kinds or HEALTHY in kinds):
            drawn += [Case(schema, HEALTHY, ANY_DOSE, number, seed) for number in range(wanted)]
    order = np.random.default_rng(seed).permutation(len(drawn))
    return [drawn[index] for index in order]


def _doses_of(kind: str) -> tuple[str, ...]:
    has_time = KINDS[kind].dose and kind != "clock_unaligned"
    return tuple(DOSES) if has_time else (ANY_DOSE,)


def case_named(name: str, seed: int) -> Case:
    """The case of --case; raises ValueError."""
    parts = _NAME.fullmatch(name)
    if parts is None or parts[2] not in (*KINDS, HEALTHY):
        raise ValueError(f"there is no case {name!r}; a name is like native-slow_worker-loud-3")
    return Case(parts[1], parts[2], parts[3], int(parts[4]), seed)
