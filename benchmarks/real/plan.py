"""Which job gets which faults when: drawn at random, doses planned from what jobs before did."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.real.kinds import DOSES, KINDS, LAYOUTS, amount

AIMED = 1.06
"""A dose is planned so much above its least."""

WARM_UP, OFF_STEPS, LEAST_ON, MOST_ON, LEAST_TURNS = 25, 20, 20, 60, 5
ON_S = 12.0
"""An episode lasts about this long: longer than a diagnosis may take. A fault that strikes now and
then strikes LEAST_TURNS times."""

MOST_CORRECTED = 5.0
MOST_SHARE_OF_CORE = 6.0


@dataclass
class Episode:
    """A fault that is on from step `first` to `last`. `ranks`: empty where nobody is the reason."""

    fault: str
    dose: str
    ranks: tuple[int, ...]
    first: int
    last: int
    own: float = 0.0
    """planned: how much of a step of the job the fault takes"""
    texts: list[str] = field(default_factory=list)
    """as --fault takes them"""
    mark_ns: int = 0
    step_ratio: float = math.nan
    step_s: float = math.nan
    alert_ns: int | None = None
    onset: int | None = None
    confidence: str | None = None
    kept: bool = False
    """the last diagnosis has it, too"""
    other_kind: list[str] = field(default_factory=list)
    """kinds that do not fit, of findings that name the right ranks"""
    wrong: list[str] = field(default_factory=list)
    """findings in its steps that name somebody else"""
    job_level: list[str] = field(default_factory=list)
    """other findings in its steps that name nobody"""
    misdated: list[str] = field(default_factory=list)
    """findings about its culprits, or of its kind, with mostly other steps"""
    of_recording: list[str] = field(default_factory=list)
    """findings in its steps about what was recorded"""

    @property
    def right(self) -> tuple[str, ...]:
        """Kinds of findings that fit."""
        return KINDS[self.fault].right

    @property
    def delay_s(self) -> float | None:
        """From the mark to the alert; None: it was not found."""
        return None if self.alert_ns is None else (self.alert_ns - self.mark_ns) / 1e9

    @property
    def delay_steps(self) -> float | None:
        """The same in steps of the episode."""
        return None if self.delay_s is None else self.delay_s / self.step_s

    @property
    def reached(self) -> str:
        """The dose that the steps show; under the least one: below."""
        return next((dose for dose, x in DOSES.items() if self.step_ratio >= x), "below")


@dataclass(frozen=True)
class Crossing:
    """What one job is to be: its layout, whether a neighbour burns, kinds and doses in order."""

    layout: str
    neighbour: bool
    faults: tuple[tuple[str, str], ...]


def crossings(
    seed: int,
    kinds: Sequence[str] = tuple(KINDS),
    doses: Sequence[str] = tuple(DOSES),
    layouts: Sequence[str] = tuple(LAYOUTS),
    neighbours: Sequence[bool] = (False, True),
    per_job: int = 2,
) -> Iterator[Crossing]:
    """Jobs without end, always the same for one seed. Kinds and doses come from a shuffled deck, so
    that none is rare; a job takes the next that its layout can have."""
    drawn, deck = random.Random(seed), list[tuple[str, str]]()
    while True:
        layout, neighbour = drawn.choice(list(layouts)), drawn.choice(list(neighbours))
        if not any(layout in KINDS[kind].layouts for kind in kinds):
            continue
        taken: list[tuple[str, str]] = []
        while len(taken) < per_job:
            fits = [i for i, (kind, _) in enumerate(deck) if layout in KINDS[kind].layouts]
            if fits:
                taken.append(deck.pop(fits[0]))
                continue
            more = [(kind, dose) for kind in kinds for dose in doses]
            drawn.shuffle(more)
            deck += more
        yield Crossing(layout, neighbour, tuple(taken))


def planned(
    crossing: Crossing, step_ms: float, history: Sequence[Episode], seed: str
) -> list[Episode]:
    """Episodes of one job, in order. `history`: earlier ones of the same layout."""
    drawn, begin, found = random.Random(seed), WARM_UP, []
    for name, dose in crossing.faults:
        kind = KINDS[name]
        length = math.ceil(ON_S / (step_ms / 1e3 * DOSES[dose]))
        length = max(min(max(length, LEAST_ON), MOST_ON), kind.every * LEAST_TURNS)
        ranks = _ranks(kind.whom, crossing.layout, drawn)
        own = (DOSES[dose] * AIMED - 1) * gain_of(name, history)
        if kind.fault == "burner":
            own = min(own, MOST_SHARE_OF_CORE)
        episode = Episode(name, dose, ranks, begin, begin + length - 1, own)
        episode.texts = _written(episode, own * step_ms)
        found.append(episode)
        begin += length + OFF_STEPS
    return found


def _ranks(whom: str, layout: str, drawn: random.Random) -> tuple[int, ...]:
    ranks = range(LAYOUTS[layout].num_ranks)
    if whom == "pair":  # of the job with two replicas: dp lies between pp and tp
        rank = drawn.choice([rank for rank in ranks if not rank & 2])
        return (rank, rank | 2)
    number = {"one": 1, "two": 2}.get(whom, 0)
    return tuple(sorted(drawn.sample(ranks, number)))


def _written(episode: Episode, own_ms: float) -> list[str]:
    kind = KINDS[episode.fault]
    dose = amount(episode.fault, own_ms, episode.own)
    steps = f"from={episode.first},to={episode.last}"
    if kind.whom == "pair":
        return [f"{kind.fault}={episode.ranks[0]},peer={episode.ranks[1]},{dose},{steps}"]
    heads = [f"{kind.fault}={rank}" for rank in episode.ranks] or [kind.fault]
    return [f"{head},{dose},{steps}" for head in heads]


def gain_of(name: str, history: Sequence[Episode]) -> float:
    """Own time of a fault for the step time that it is to cost, by what its episodes did: the line
    through 0 with the least squares, because single ones are noisy on a busy machine."""
    measured = [e for e in history if e.fault == name and math.isfinite(e.step_ratio)]
    usual = KINDS[name].gain
    if not measured:
        return usual
    cost = sum((e.step_ratio - 1) * e.own for e in measured)
    least, most = usual / MOST_CORRECTED, usual * MOST_CORRECTED
    own = sum(e.own**2 for e in measured)
    return min(max(own / cost, least), most) if cost > 0 else most


def expected_step_ms(jobs: Sequence[dict[str, Any]], layout: str, neighbour: bool) -> float | None:
    """By the last three jobs of the same layout and neighbour; None: none ran yet."""
    alike = [
        job["step_ms"]
        for job in jobs
        if (job["layout"], job["neighbour"]) == (layout, neighbour)
        and math.isfinite(job["step_ms"])
    ]
    return statistics.median(alike[-3:]) if alike else None
