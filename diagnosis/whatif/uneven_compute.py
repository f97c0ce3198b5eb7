"""Workers and stages that compute longer than their peers, pauses, micro-batches of uneven work.

Shape suffixes: see the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.operations import Floats
from diagnosis.whatif.optypes import BACKWARD, COMPUTE, FORWARD
from diagnosis.whatif.suspects import Fix, Suspect, beyond, medians, named, scaled, shrunk

MIN_WORKER_EXCESS, MIN_WORKER_EXCESS_OF_TWO, MIN_STAGE_EXCESS = 0.05, 0.1, 0.1
MIN_CORRELATION, MIN_SPREAD = 0.9, 0.05
"""Forward and backward of a micro-batch grow together (the paper), and by how much at least."""

_FEWEST_STEPS_FOR_SPIKES = 5
_SPIKE_MADS, _SPIKE_SHARE = 6 * 1.4826, 0.5
_FEWEST_SPIKES = 3


@dataclass(frozen=True)
class Pauses:
    """What forwards take longer where they pause. `members`: these forwards; N of them."""

    members: list[int]
    pause_NSD: Floats  # s; 0 where there is none
    num_cells: int  # that pause at all
    ratio: float  # of the median paused forward to an ordinary one

    @property
    def text(self) -> str:
        """What was seen."""
        return (
            f"{np.count_nonzero(self.pause_NSD)} forward passes in {self.num_cells} cells "
            "(stage, dp rank) pause, backward passes do not: Python garbage collections look "
            "like this"
        )


def pauses(prepared: Prepared) -> Pauses | None:
    """Pauses of forwards only, on a different cell each time; None where there are too few."""
    ops = prepared.ops
    if len(ops.step_S) < _FEWEST_STEPS_FOR_SPIKES:
        return None
    own_OSD = _without_inside(prepared)
    by_type = {}
    for optype in COMPUTE:
        members = [op for stage in range(ops.sizes.pp) for op in ops.of_type(optype, stage)]
        if not members:  # nothing ran in this direction: its pauses are unknown
            return None
        base_OSD = np.median(own_OSD[members], axis=1, keepdims=True)
        excess_OSD = own_OSD[members] - base_OSD
        noise = _SPIKE_MADS * float(np.median(np.abs(excess_OSD)))
        is_spike = excess_OSD > np.maximum(noise, _SPIKE_SHARE * base_OSD)
        by_type[optype] = (members, base_OSD, is_spike)
    members, base_OSD, is_spike = by_type[FORWARD]
    num = int(is_spike.sum())
    if num < _FEWEST_SPIKES or 4 * int(by_type[BACKWARD][2].sum()) > num:
        return None
    num_PD = np.zeros((ops.sizes.pp, ops.sizes.dp))
    for at, op in enumerate(members):
        num_PD[ops.stage_O[op]] += is_spike[at].sum(axis=0)
    if num_PD.size < _FEWEST_SPIKES or num_PD.max() > num / 2:
        return None
    pause_NSD = np.where(is_spike, own_OSD[members] - base_OSD, 0.0)
    usual = np.broadcast_to(base_OSD, is_spike.shape)[is_spike]
    ratio = float(np.median(own_OSD[members][is_spike] / usual))
    return Pauses(members, pause_NSD, int((num_PD > 0).sum()), ratio)


def _without_inside(prepared: Prepared) -> Floats:
    """Own times without collectives over replicas inside them."""
    inside_OSD = prepared.ops.inside_OSD
    return prepared.own_OSD if inside_OSD is None else prepared.own_OSD - inside_OSD


class Compute:
    """Forward and backward times of every cell, without collectives over replicas inside them:
    there a quick replica waits for a slow one, and both take equally long.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.ops = prepared, prepared.ops
        self.own_OSD = _without_inside(prepared)
        self.own_OSDT = self.own_OSD[..., None]
        if self.ops.members is not None:
            others_OSD = prepared.own_OSD - self.own_OSD
            self.own_OSDT = prepared.own_OSDT - others_OSD[..., None]
        self.level_PDT = np.zeros((self.ops.sizes.pp, *self.own_OSDT.shape[2:]))
        for stage in range(self.ops.sizes.pp):
            for members in self._alike(stage):
                self.level_PDT[stage] += len(members) * medians(self.own_OSDT[members])

    def _alike(self, stage: int) -> Iterator[list[int]]:
        """Ops of one type and chunk: another chunk may hold other layers, such as the head."""
        for optype in COMPUTE:
            members = self.ops.of_type(optype, stage)
            for chunk in np.unique(self.ops.chunk_O[members]):
                yield [op for op in members if self.ops.chunk_O[op] == chunk]

    def _of_stage(self, stage: int) -> list[int]:
        return [op for optype in COMPUTE for op in self.ops.of_type(optype, stage)]

    def _slow(self, stage: int) -> Floats:
        """How many times longer workers compute than the others of their stage, (D, T); 1 where
        that is within the noise.
        """
        level_DT = self.level_PDT[stage]
        ratio_DT = np.ones(level_DT.shape)
        there = np.flatnonzero(np.isfinite(level_DT.ravel()))
        if there.size > 1:
            least = MIN_WORKER_EXCESS if there.size > 2 else MIN_WORKER_EXCESS_OF_TWO
            ratios, slow = beyond(level_DT.ravel()[there], least)
            ratio_DT.reshape(-1)[there[slow]] = ratios[slow]
        return ratio_DT

    def workers(self) -> Iterator[Suspect]:
        """Workers that compute longer than the others of their stage, cell by cell."""
        for stage in range(self.ops.sizes.pp):
            ratio_DT = self._slow(stage)
            for dp in np.flatnonzero((ratio_DT > 1).any(axis=1)).tolist():
                yield self._worker(stage, dp, ratio_DT[dp])

    def _worker(self, stage: int, dp: int, ratio_T: Floats) -> Suspect:
        ratio = float(ratio_T.max())
        ranks = tuple(self.ops.rank_PDT[stage, dp, ratio_T > 1].tolist())
        text = (
            f"{named(ranks)} compute{'s' if len(ranks) == 1 else ''} {ratio:.2f}x as long as the "
            f"other {'replicas' if self.ops.members is None else 'ranks'} of stage {stage}"
        )
        members = self._of_stage(stage)
        factor_NS = shrunk(self.own_OSDT[members, :, dp], ratio_T)
        fix = self._without_slow(members, dp, factor_NS)
        return Suspect("slow_worker", (stage,), ranks, ratio, text, fix)

    def stages(self) -> Iterator[Suspect]:
        """Stages whose median worker computes longer than that of the other stages."""
        if self.ops.sizes.pp < 2:
            return
        level_P = [  # slow workers do not make their stage slow
            np.nanmedian(level_DT[self._slow(stage) == 1])
            for stage, level_DT in enumerate(self.level_PDT)
        ]
        ratio_P, slow = beyond(np.array(level_P), MIN_STAGE_EXCESS)
        for stage in slow.tolist():
            ratio = float(ratio_P[stage])
            text = f"stage {stage} computes {ratio:.2f}x as long as the other stages"
            fix = self._without_slow(self._of_stage(stage), slice(None), np.array(1 / ratio))
            yield Suspect("slow_stage", (stage,), (), ratio, text, fix)

    def _without_slow(self, members: list[int], dp: int | slice, factor: Floats) -> Fix:
        """A fix that shortens compute and leaves of the collectives inside what their last member
        takes: nobody waits for it any more.
        """
        if self.ops.inside_OSD is None:
            return scaled(members, dp, factor)
        inside_NS1 = self.ops.inside_OSD[members].min(axis=2, keepdims=True)
        least_NSD = self.own_OSD[members] + inside_NS1

        def fix(own_OSD: Floats) -> None:
            own_NSD = np.minimum(own_OSD[members], least_NSD) - inside_NS1
            own_NSD[:, :, dp] *= factor
            own_OSD[members] = own_NSD + inside_NS1

        return fix

    def spikes(self) -> Iterator[Suspect]:
        """Pauses in forwards only, on a different cell each time: garbage collections."""
        paused = pauses(self.prepared)
        if paused is None:
            return

        def fix(own_OSD: Floats) -> None:
            own_OSD[paused.members] -= paused.pause_NSD

        yield Suspect("gc_pauses", (), (), paused.ratio, paused.text, fix)

    def imbalance(self) -> Iterator[Suspect]:
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
        yield Suspect("sequence_imbalance", (), (), 1 + spread, text, fix)

    def _by_chunk(self, optype: str, stage: int) -> list[int]:
        """Ops in the order of chunks, then micro-batches: the same for both directions."""
        return sorted(self.ops.of_type(optype, stage), key=lambda op: (self.ops.chunk_O[op], op))
