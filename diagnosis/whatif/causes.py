"""Where the lost time is, beyond the paper: medians per cell, link and stage with an outlier test.

The paper's rules know op types, stages and a fixed share of the workers; they never name garbage
collections, place no link, and produce false positives on large jobs. Here ranks
outside their peers' noise are found first, and the replay only measures what that costs.

Assumptions: stages have about equal work and parameters, links of a job are equally fast. Known
false positives: a stage that holds more layers or parameters on purpose, or alone recomputes. Not
seen: what costs nothing, such as a slow network of a stage that waits for another one anyway, and
slow collectives between the members of a cell. Shape suffixes: see the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.operations import Floats
from diagnosis.whatif.replay import Scenarios, step_times
from diagnosis.whatif.slow_transfers import links, networks
from diagnosis.whatif.suspects import Suspect
from diagnosis.whatif.uneven_compute import Compute

MIN_COST = 0.01
"""Share of the step below which a cause is left out."""

MOST_SUSPECTS = 40
"""The farthest from their peers; each costs one replay."""

NOT_IDENTIFIABLE = (
    "If compute, links or networks are equally slow everywhere, one run cannot show it: compare "
    "with a good run (rankscope diagnose RUN --baseline GOOD_RUN)."
)


@dataclass(frozen=True)
class Cause:
    """One cause. `kind`: as in findings; `ranks`: who (the first of a cell whose members are not
    distinguished), none where a whole stage or job is meant; `ratio`: x of its peers; `cost_s`:
    mean seconds by which a step with this cause is longer than without any (two causes may cost
    less than the sum: they overlap).
    """

    kind: str
    stages: tuple[int, ...]
    ranks: tuple[int, ...]
    ratio: float
    cost_s: float
    text: str


def causes(prepared: Prepared, look: Callable[[], None] = lambda: None) -> tuple[Cause, ...]:
    """Causes that cost at least MIN_COST of the step, the costliest first.

    `look` is called before each replay; what it raises ends the work.
    """
    everywhere = Scenarios(1, [(0,)] * len(prepared.ideal_O))

    def mean_s(own_OSD: Floats) -> float:
        look()
        times_KS, _ = step_times(prepared.graph, own_OSD, prepared.ideal_O, everywhere)
        return float(times_KS.mean())

    suspects = sorted(_suspects(prepared), key=lambda suspect: -suspect.ratio)[:MOST_SUSPECTS]
    # the fix of gc_pauses is a time, not a factor
    suspects.sort(key=lambda suspect: suspect.kind != "gc_pauses")
    least_s = MIN_COST * mean_s(prepared.own_OSD)
    without_any_s = mean_s(_fixed(prepared, suspects))
    costly = []
    for suspect in suspects:
        others = [other for other in suspects if other is not suspect]
        cost_s = mean_s(_fixed(prepared, others)) - without_any_s
        if cost_s >= least_s:
            costly.append(
                Cause(
                    suspect.kind, suspect.stages, suspect.ranks, suspect.ratio, cost_s, suspect.text
                )
            )
    return tuple(sorted(costly, key=lambda cause: -cause.cost_s))


def _fixed(prepared: Prepared, suspects: Iterable[Suspect]) -> Floats:
    own_OSD = prepared.own_OSD.copy()
    for suspect in suspects:
        suspect.fix(own_OSD)
    return own_OSD


def _suspects(prepared: Prepared) -> Iterator[Suspect]:
    compute = Compute(prepared)
    yield from compute.spikes()
    yield from compute.workers()
    yield from compute.stages()
    yield from compute.imbalance()
    yield from links(prepared)
    yield from networks(prepared)
