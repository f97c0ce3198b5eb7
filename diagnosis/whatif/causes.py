"""Where the lost time is, beyond the paper: medians per cell, link and stage with an outlier test.

The paper's rules know op types, stages and a fixed share of the workers; they never name garbage
collections, place no link, and accuse innocents of large jobs. Here whoever is beyond his
peers' noise is found first, and the replay only tells what that costs.

Assumptions: stages have about equal work and parameters, links of a job are alike. Known false
positives: a stage that holds more layers or parameters on purpose, or alone recomputes. Not seen:
what costs nothing, such as a slow network of a stage that waits for another one anyway. Shape
suffixes: see the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.operations import Floats, Ints
from diagnosis.whatif.optypes import (
    ALL_GATHER,
    BACKWARD,
    BACKWARD_SEND,
    COMPUTE,
    FORWARD,
    FORWARD_SEND,
    REDUCE_SCATTER,
    SEPARATE_ALL_REDUCE,
)
from diagnosis.whatif.replay import Scenarios, step_times

MIN_WORKER_EXCESS, MIN_WORKER_EXCESS_OF_TWO, MIN_STAGE_EXCESS = 0.05, 0.1, 0.1
MIN_LINK_RATIO, MIN_NETWORK_RATIO = 2.0, 1.5
MIN_CORRELATION, MIN_SPREAD = 0.9, 0.05
"""Forward and backward of a micro-batch grow together (the paper), and by how much at least."""
MIN_COST = 0.01
"""Share of the step below which a cause is not told."""

MOST_SUSPECTS = 40
"""The farthest from their peers; each costs one replay."""

NOT_IDENTIFIABLE = (
    "Compute, links or networks that are slow everywhere alike are not seen within one run; "
    "compare with a baseline run."
)

_MADS = 3 * 1.4826
_FEWEST_STEPS_FOR_SPIKES = 5
_SPIKE_MADS, _SPIKE_SHARE = 6 * 1.4826, 0.5
_FEWEST_SPIKES = 3


@dataclass(frozen=True)
class Cause:
    """One cause. `kind`: as in findings; `ranks` stand for their cells, none where a whole stage or
    job is meant; `ratio`: x of its peers; `cost_s`: mean seconds by which a step with this cause is
    longer than without any (two causes may cost less than the sum: they overlap).
    """

    kind: str
    stages: tuple[int, ...]
    ranks: tuple[int, ...]
    ratio: float
    cost_s: float
    text: str


@dataclass(frozen=True)
class _Suspect:
    """A cause before its cost."""

    kind: str
    stages: tuple[int, ...]
    ranks: tuple[int, ...]
    ratio: float
    text: str
    fix: Callable[[Floats], None]
    """makes own times (O, S, D), in place, what they would be without it"""


def causes(prepared: Prepared, look: Callable[[], None] = lambda: None) -> tuple[Cause, ...]:
    """Causes that cost at least MIN_COST of the step, the costliest first.

    `look` is called before each replay; what it raises ends the work.
    """
    everywhere = Scenarios(1, [(0,)] * len(prepared.ideal_O))

    def mean_s(own_OSD: Floats) -> float:
        look()
        times_KS, _ = step_times(prepared.graph, own_OSD, prepared.ideal_O, everywhere)
        return float(times_KS.mean())

    suspects = sorted(_suspects(prepared), key=lambda one: -one.ratio)[:MOST_SUSPECTS]
    suspects.sort(key=lambda one: one.kind != "gc_pauses")  # its fix is a time, not a factor
    least_s = MIN_COST * mean_s(prepared.own_OSD)
    without_any_s = mean_s(_fixed(prepared, suspects))
    found = []
    for suspect in suspects:
        others = [other for other in suspects if other is not suspect]
        cost_s = mean_s(_fixed(prepared, others)) - without_any_s
        if cost_s >= least_s:
            found.append(
                Cause(suspect.kind, suspect.stages, suspect.ranks, suspect.ratio, cost_s,
                      suspect.text)
            )  # fmt: skip
    return tuple(sorted(found, key=lambda cause: -cause.cost_s))


def _fixed(prepared: Prepared, suspects: Iterable[_Suspect]) -> Floats:
    own_OSD = prepared.own_OSD.copy()
    for suspect in suspects:
        suspect.fix(own_OSD)
    return own_OSD


def _scaled(members: list[int], dp: int | slice, ratio: float) -> Callable[[Floats], None]:
    """A fix that divides the times of some ops."""

    def fix(own_OSD: Floats) -> None:
        own_OSD[members, :, dp] /= ratio

    return fix


def _suspects(prepared: Prepared) -> Iterator[_Suspect]:
    compute = _Compute(prepared)
    yield from compute.spikes()
    yield from compute.workers()
    yield from compute.stages()
    yield from compute.imbalance()
    yield from _links(prepared)
    yield from _networks(prepared)


def beyond(values: Floats, least: float) -> tuple[Floats, Ints]:
    """Of each value the ratio to the median of the others, and who is beyond their noise.

    Noise: 3 MAD of the ratios, at least `least`. Two values are compared with each other; where the
    others take no time the ratio is 1.
    """
    others = np.array([np.median(np.delete(values, i)) for i in range(len(values))])
    ratio = np.divide(values, others, out=np.ones(len(values)), where=others > 0)
    noise = _MADS * np.median(np.abs(ratio - np.median(ratio))) if len(values) > 2 else 0.0
    return ratio, np.flatnonzero(ratio - 1 > max(least, float(noise)))


class _Compute:
    """Forward and backward times of every cell, without collectives over replicas inside them:
    there a quick replica waits for a slow one, and both take equally long.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.ops = prepared, prepared.ops
        self.own_OSD = prepared.own_OSD
        if self.ops.inside_OSD is not None:
            self.own_OSD = prepared.own_OSD - self.ops.inside_OSD
        self.level_PD = np.zeros((self.ops.sizes.pp, self.ops.sizes.dp))
        for stage in range(self.ops.sizes.pp):
            for members in self._alike(stage):
                medians_D = np.median(self.own_OSD[members], axis=(0, 1))
                self.level_PD[stage] += len(members) * medians_D

    def _alike(self, stage: int) -> Iterator[list[int]]:
        """Ops of one type and chunk: another chunk may hold other layers, such as the head."""
        for optype in COMPUTE:
            members = self.ops.of_type(optype, stage)
            for chunk in np.unique(self.ops.chunk_O[members]):
                yield [op for op in members if self.ops.chunk_O[op] == chunk]

    def _of_stage(self, stage: int) -> list[int]:
        return [op for optype in COMPUTE for op in self.ops.of_type(optype, stage)]

    def _slow_replicas(self, stage: int) -> tuple[Floats, Ints]:
        num_dp = self.ops.sizes.dp
        if num_dp < 2:
            return np.ones(1), np.zeros(0, np.int64)
        least = MIN_WORKER_EXCESS if num_dp > 2 else MIN_WORKER_EXCESS_OF_TWO
        return beyond(self.level_PD[stage], least)

    def workers(self) -> Iterator[_Suspect]:
        """Cells that compute longer than the other replicas of their stage."""
        for stage in range(self.ops.sizes.pp):
            ratio_D, slow = self._slow_replicas(stage)
            for dp in slow.tolist():
                rank, ratio = int(self.ops.rank_PD[stage, dp]), float(ratio_D[dp])
                text = f"rank {rank} computes {ratio:.2f}x the other replicas of stage {stage}"
                fix = self._without_slow(self._of_stage(stage), dp, ratio)
                yield _Suspect("slow_worker", (stage,), (rank,), ratio, text, fix)

    def stages(self) -> Iterator[_Suspect]:
        """Stages whose median replica computes longer than that of the other stages."""
        if self.ops.sizes.pp < 2:
            return
        level_P = [  # slow workers do not make their stage slow
            np.median(np.delete(level_D, self._slow_replicas(stage)[1]))
            for stage, level_D in enumerate(self.level_PD)
        ]
        ratio_P, slow = beyond(np.array(level_P), MIN_STAGE_EXCESS)
        for stage in slow.tolist():
            ratio = float(ratio_P[stage])
            text = f"stage {stage} computes {ratio:.2f}x the other stages"
            fix = self._without_slow(self._of_stage(stage), slice(None), ratio)
            yield _Suspect("slow_stage", (stage,), (), ratio, text, fix)

    def _without_slow(
        self, members: list[int], dp: int | slice, ratio: float
    ) -> Callable[[Floats], None]:
        """A fix that divides compute and leaves of the collectives inside what their last member
        takes: nobody waits for it any more.
        """
        if self.ops.inside_OSD is None:
            return _scaled(members, dp, ratio)
        inside_NS1 = self.ops.inside_OSD[members].min(axis=2, keepdims=True)
        least_NSD = self.own_OSD[members] + inside_NS1

        def fix(own_OSD: Floats) -> None:
            own_NSD = np.minimum(own_OSD[members], least_NSD) - inside_NS1
            own_NSD[:, :, dp] /= ratio
            own_OSD[members] = own_NSD + inside_NS1

        return fix

    def spikes(self) -> Iterator[_Suspect]:
        """Pauses in forwards only, on ever other cells: garbage collections."""
        if len(self.ops.step_S) < _FEWEST_STEPS_FOR_SPIKES:
            return
        found = {}
        for optype in COMPUTE:
            members = [op for stage in range(self.ops.sizes.pp)
                       for op in self.ops.of_type(optype, stage)]  # fmt: skip
            base_OSD = np.median(self.own_OSD[members], axis=1, keepdims=True)
            excess_OSD = self.own_OSD[members] - base_OSD
            noise = _SPIKE_MADS * float(np.median(np.abs(excess_OSD)))
            is_spike = excess_OSD > np.maximum(noise, _SPIKE_SHARE * base_OSD)
            found[optype] = (members, base_OSD, is_spike)
        members, base_OSD, is_spike = found[FORWARD]
        pause_OSD = np.where(is_spike, self.own_OSD[members] - base_OSD, 0.0)
        num = int(is_spike.sum())
        if num < _FEWEST_SPIKES or 4 * int(found[BACKWARD][2].sum()) > num:
            return
        num_PD = np.zeros_like(self.level_PD)
        for at, op in enumerate(members):
            num_PD[self.ops.stage_O[op]] += is_spike[at].sum(axis=0)
        if num_PD.size < _FEWEST_SPIKES or num_PD.max() > num / 2:
            return

        def fix(own_OSD: Floats) -> None:
            own_OSD[members] -= pause_OSD

        spiked = self.own_OSD[members][is_spike]
        ratio = float(np.median(spiked / np.broadcast_to(base_OSD, is_spike.shape)[is_spike]))
        text = (
            f"{num} forwards on {int((num_PD > 0).sum())} cells pause, backwards do not: "
            "garbage collections of Python would look like this"
        )
        yield _Suspect("gc_pauses", (), (), ratio, text, fix)

    def imbalance(self) -> Iterator[_Suspect]:
        """Micro-batches of uneven work: forward and backward grow together, and much."""
        pairs = [
            (self._by_chunk(FORWARD, stage), self._by_chunk(BACKWARD, stage))
            for stage in range(self.ops.sizes.pp)
        ]
        if any(len(f) != len(b) or len(f) < 2 for f, b in pairs):
            return
        correlations, spreads = [], []
        for forwards, backwards in pairs:
            for dp in range(self.ops.sizes.dp):
                f, b = self.own_OSD[forwards, :, dp].ravel(), self.own_OSD[backwards, :, dp].ravel()
                if f.std() > 0 and b.std() > 0:
                    correlations.append(float(np.corrcoef(f, b)[0, 1]))
                    spreads.append(float(f.std() / f.mean()))
        if not spreads or np.median(correlations) < MIN_CORRELATION:
            return
        spread = float(np.median(spreads))
        if spread < MIN_SPREAD:
            return

        def fix(own_OSD: Floats) -> None:
            for members in (members for pair in pairs for members in pair):
                own_OSD[members] = own_OSD[members].mean()

        text = (
            f"forward and backward of a micro-batch grow together (correlation "
            f"{np.median(correlations):.2f}) and spread by {100 * spread:.0f} % within a rank"
        )
        yield _Suspect("sequence_imbalance", (), (), 1 + spread, text, fix)

    def _by_chunk(self, optype: str, stage: int) -> list[int]:
        """Ops in the order of chunks, then micro-batches: the same for both directions."""
        return sorted(self.ops.of_type(optype, stage), key=lambda op: (self.ops.chunk_O[op], op))


def _links(prepared: Prepared) -> Iterator[_Suspect]:
    """Links between two stages of one replica whose transfers take longer than all others."""
    ops, own_OSD = prepared.ops, prepared.own_OSD
    if not {FORWARD_SEND, BACKWARD_SEND} & set(ops.optypes):
        return
    over: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for node in prepared.graph.nodes:
        if len(node.ops) == 2 and ops.optypes[ops.type_O[node.ops[0]]] in (
            FORWARD_SEND, BACKWARD_SEND,
        ):  # fmt: skip
            stages = sorted(int(ops.stage_O[op]) for op in node.ops)
            over.setdefault((stages[0], stages[1]), []).append(node.ops)
    edges = sorted(over)
    level = np.array([_transfer_D(own_OSD, over[edge]) for edge in edges])
    flat = level.ravel()
    if flat.size < 3 or (flat <= 0).any():
        return
    ratios, slow = beyond(flat, MIN_LINK_RATIO - 1)
    for at in slow.tolist():
        edge, dp = edges[at // ops.sizes.dp], at % ops.sizes.dp
        members = [op for pair in over[edge] for op in pair]
        ranks = tuple(int(ops.rank_PD[stage, dp]) for stage in edge)
        text = (
            f"transfers between rank {ranks[0]} and rank {ranks[1]} take "
            f"{ratios[at]:.1f}x those of the other links"
        )
        fix = _scaled(members, dp, float(ratios[at]))
        yield _Suspect("slow_link", edge, ranks, float(ratios[at]), text, fix)


def _transfer_D(own_OSD: Floats, pairs: list[tuple[int, ...]]) -> Floats:
    """Median transfer between two stages, s: the longer of its two sides counts."""
    sent, received = own_OSD[[a for a, _ in pairs]], own_OSD[[b for _, b in pairs]]
    median_D: Floats = np.median(np.maximum(sent, received), axis=(0, 1))
    return median_D


def _networks(prepared: Prepared) -> Iterator[_Suspect]:
    """Stages whose collectives over replicas take longer than those of the quicker stages."""
    ops, own_OSD = prepared.ops, prepared.own_OSD
    types = (ALL_GATHER, REDUCE_SCATTER, SEPARATE_ALL_REDUCE)
    members = [[op for t in types for op in ops.of_type(t, p)] for p in range(ops.sizes.pp)]
    if ops.sizes.pp < 2 or not all(members) or len({len(m) for m in members}) > 1:
        return
    level_P = np.array([np.median(own_OSD[m], axis=(1, 2)).sum() for m in members])
    quick = float(np.quantile(level_P, 0.25, method="lower"))
    if quick <= 0:
        return
    slow = np.flatnonzero(level_P > MIN_NETWORK_RATIO * quick)
    for stage in slow.tolist():
        ratio = float(level_P[stage] / quick)
        ranks = tuple(ops.rank_PD[stage].tolist())
        text = (
            f"collectives over the replicas of stage {stage} take {ratio:.1f}x the quicker stages'"
        )
        fix = _scaled(members[stage], slice(None), ratio)
        yield _Suspect("slow_dp_network", (stage,), ranks, ratio, text, fix)
