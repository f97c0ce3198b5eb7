"""Which jobs are judged: each has a name and a seed of its own, so that one can be made again."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sample_traces.generate import drawn_trace
from sample_traces.generate.doses import DOSES
from sample_traces.generate.drawn import LabelledJob, draw_healthy, draw_labelled
from sample_traces.generate.drawn_trace import LabelledTrace, draw_trace
from sample_traces.generate.faults import KINDS

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
) -> Iterator[Case]:
    """All jobs of a run of the benchmark, first one of each; `kinds`: none are all."""
    for number in range(max(per_dose, num_healthy)):
        for schema, known in ((NATIVE, KINDS), (TRACE, drawn_trace.KINDS)):
            if schema not in schemas:
                continue
            for kind in known if number < per_dose else ():
                for dose in _doses_of(kind) if not kinds or kind in kinds else ():
                    yield Case(schema, kind, dose, number, seed)
            wanted = num_healthy if schema == NATIVE else num_healthy // 4
            if number < wanted and (not kinds or HEALTHY in kinds):
                yield Case(schema, HEALTHY, ANY_DOSE, number, seed)


def _doses_of(kind: str) -> tuple[str, ...]:
    has_time = KINDS[kind].dose and kind != "clock_unaligned"
    return tuple(DOSES) if has_time else (ANY_DOSE,)


def case_named(name: str, seed: int) -> Case:
    """The case of --case; raises ValueError."""
    parts = _NAME.fullmatch(name)
    if parts is None or parts[2] not in (*KINDS, HEALTHY):
        raise ValueError(f"there is no case {name!r}; a name is like native-slow_worker-loud-3")
    return Case(parts[1], parts[2], parts[3], int(parts[4]), seed)
