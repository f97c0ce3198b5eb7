"""The jobs to judge: each has its own name and seed, so that one can be generated again."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from sample_traces.generate import faults
from sample_traces.generate.labelled import drawn_log, drawn_trace
from sample_traces.generate.labelled.doses import DOSES
from sample_traces.generate.labelled.drawn import LabelledJob, draw_healthy, draw_labelled
from sample_traces.generate.labelled.drawn_log import LabelledLog, draw_log
from sample_traces.generate.labelled.drawn_trace import LabelledTrace, draw_trace
from sample_traces.generate.labelled.worlds import LOG_WORLDS, NATIVE_WORLDS, RECORDED
from sample_traces.generate.recorded_noise import load_recording, recordings_in

NATIVE, TRACE = "native", "trace"
"""Our own tables; the StragglerAnalysis schema."""
WORLDS = (NATIVE, TRACE, *LOG_WORLDS, *(name for name in NATIVE_WORLDS if name != NATIVE))
"""How jobs behave and what is recorded of them (docs/fault-benchmark.md)."""
HEALTHY = "healthy"
ANY_DOSE = "any"
"""Of kinds whose dose lengthens no step."""

_NAME = re.compile(rf"({'|'.join(WORLDS)})-([a-z_]+)-([a-z]+)-(\d+)")
_ONLY_NATIVE = ("clock_unaligned", "monitor_overhead")
_OF_TENSOR_PARALLEL = ("slow_node_link",)
_HEALTHY_SHARE = {NATIVE: 1.0, TRACE: 0.25}
"""Healthy jobs of a world as a share of what is asked for; others: all."""


def kinds_of(world: str) -> tuple[str, ...]:
    """What is planted in a world: in other worlds of the hooks' tables what changes times."""
    if world in LOG_WORLDS:
        return drawn_log.KINDS
    if world in (NATIVE, TRACE):
        return tuple(faults.KINDS) if world == NATIVE else drawn_trace.KINDS
    left_out = _ONLY_NATIVE
    if NATIVE_WORLDS[world].most_tp == 1:
        left_out += _OF_TENSOR_PARALLEL
    return tuple(kind for kind, what in faults.KINDS.items() if what.dose and kind not in left_out)


@dataclass(frozen=True)
class Case:
    """One job to judge. `dose`: loud, quiet, masked, or ANY_DOSE. `noise`: folder of recordings."""

    world: str
    kind: str
    dose: str
    number: int
    seed: int
    noise: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """As --case takes it."""
        return f"{self.world}-{self.kind}-{self.dose}-{self.number}"

    def drawn(self) -> LabelledJob | LabelledTrace | LabelledLog:
        """The job; the same whatever else is judged."""
        seed = (self.seed << 32) + zlib.crc32(self.name.encode())
        planted = None if self.kind == HEALTHY else self.kind
        if self.world in LOG_WORLDS:
            world = LOG_WORLDS[self.world]
            return draw_log(world, planted, self.dose, seed, self._recordings())
        if self.world == TRACE:
            return draw_trace(planted, self.dose, seed)
        native, recordings = NATIVE_WORLDS[self.world], self._recordings()
        if planted is None:
            return draw_healthy(seed, native, recordings)
        return draw_labelled(planted, self.dose, seed, native, recordings)

    def _recordings(self) -> list[str]:
        """Recordings that the world is made from."""
        if self.world not in RECORDED:
            return []
        return usable_recordings(self.world, self.noise)


def usable_recordings(world: str, folder: str) -> list[str]:
    """Files that a world can resample: tables of the hooks need compute without waiting."""
    found = recordings_in(folder)
    if world in LOG_WORLDS:
        return found
    return [path for path in found if load_recording(path).hides == "comm"]


def cases(
    seed: int,
    per_dose: int,
    num_healthy: int,
    kinds: Collection[str],
    worlds: Collection[str],
    noise: str = "",
) -> list[Case]:
    """All jobs of a run of the benchmark; `kinds`: none are all; `noise`: folder of recordings,
    empty: worlds that need them are left out.

    In the order of a draw, so that a run that is cut short has a fair sample.
    """
    worlds = [name for name in WORLDS if name in worlds and _can_be_made(name, noise)]
    drawn = [
        Case(world, kind, dose, number, seed, noise)
        for world in worlds
        for kind in kinds_of(world)
        if not kinds or kind in kinds
        for dose in _doses_of(kind)
        for number in range(per_dose)
    ]
    for world in worlds if not kinds or HEALTHY in kinds else ():
        wanted = int(num_healthy * _HEALTHY_SHARE.get(world, 1.0))
        drawn += [Case(world, HEALTHY, ANY_DOSE, number, seed, noise) for number in range(wanted)]
    order = np.random.default_rng(seed).permutation(len(drawn))
    return [drawn[index] for index in order]


def check_names(worlds: Collection[str], kinds: Collection[str]) -> None:
    """Raise ValueError where there is no such world, or where none of these has such a kind."""
    for name in worlds:
        if name not in WORLDS:
            raise ValueError(f"there is no world {name!r}; the worlds are {', '.join(WORLDS)}")
    known = {HEALTHY, *(kind for world in worlds for kind in kinds_of(world))}
    for name in kinds:
        if name not in known:
            kinds_known = ", ".join(sorted(known))
            raise ValueError(f"there is no kind {name!r} in these worlds; there are {kinds_known}")


def _can_be_made(world: str, noise: str) -> bool:
    return world not in RECORDED or bool(noise and usable_recordings(world, noise))


def _doses_of(kind: str) -> tuple[str, ...]:
    has_time = kind not in faults.KINDS or (faults.KINDS[kind].dose and kind != "clock_unaligned")
    return tuple(DOSES) if has_time else (ANY_DOSE,)


def case_named(name: str, seed: int, noise: str = "") -> Case:
    """The case of --case; raises ValueError."""
    parts = _NAME.fullmatch(name)
    if parts is None or parts[2] not in (*kinds_of(parts[1]), HEALTHY):
        doses: tuple[str, ...] = ()
    else:
        doses = (ANY_DOSE,) if parts[2] == HEALTHY else _doses_of(parts[2])
    if parts is None or parts[3] not in doses:
        raise ValueError(f"there is no case {name!r}; a name is like native-slow_worker-loud-3")
    return Case(parts[1], parts[2], parts[3], int(parts[4]), seed, noise)
