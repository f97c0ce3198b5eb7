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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.replay import Scenarios, step_times
from diagnosis.whatif.slow_transfers import links, networks
from diagnosis.whatif.suspects import Suspect
from diagnosis.whatif.uneven_compute import Compute

MIN_COST = 0.01
"""Share of the step below which a cause is left out."""

MOST_SUSPECTS = 40
"""The farthest from their peers; each costs one replay."""

_BATCH_BYTES = 64 << 20
"""Own times that are replayed together."""

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
    suspects = sorted(_suspects(prepared), key=lambda suspect: -suspect.ratio)[:MOST_SUSPECTS]
    # the fix of gc_pauses is a time, not a factor
    suspects.sort(key=lambda suspect: suspect.kind != "gc_pauses")
    but_one = [[other for other in suspects if other is not one] for one in suspects]
    all_s, without_any_s, *with_one_s = _mean_times(prepared, [[], suspects, *but_one], look)
    costly = []
    for suspect, with_it_s in zip(suspects, with_one_s, strict=True):
        cost_s = with_it_s - without_any_s
        if cost_s >= MIN_COST * all_s:
            costly.append(
                Cause(
                    suspect.kind, suspect.stages, suspect.ranks, suspect.ratio, cost_s, suspect.text
                )
            )
    return tuple(sorted(costly, key=lambda cause: -cause.cost_s))


def _mean_times(
    prepared: Prepared, fixed: Sequence[Sequence[Suspect]], look: Callable[[], None]
) -> list[float]:
    """Mean step time without each of these suspects, s. Several are replayed together, the steps of
    one behind those of another: small arrays cost more for each call than for each number.
    """
    num_ops, num_steps, num_dp = prepared.own_OSD.shape
    everywhere = Scenarios(1, [(0,)] * num_ops)
    together = max(1, _BATCH_BYTES // prepared.own_OSD.nbytes)
    times_s: list[float] = []
    for first in range(0, len(fixed), together):
        look()
        batch = fixed[first : first + together]
        own_OBSD = np.repeat(prepared.own_OSD[:, None], len(batch), axis=1)
        for number, suspects in enumerate(batch):
            for suspect in suspects:
                suspect.fix(own_OBSD[:, number])
        own_OSD = own_OBSD.reshape(num_ops, len(batch) * num_steps, num_dp)
        times_KS, _ = step_times(prepared.graph, own_OSD, prepared.ideal_O, everywhere)
        times_s += times_KS.reshape(len(batch), num_steps).mean(axis=1).tolist()
    return times_s


def _suspects(prepared: Prepared) -> Iterator[Suspect]:
    compute = Compute(prepared)
    yield from compute.spikes()
    yield from compute.workers()
    yield from compute.stages()
    yield from compute.imbalance()
    yield from links(prepared)
    yield from networks(prepared)
