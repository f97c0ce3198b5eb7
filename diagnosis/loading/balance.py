"""Uneven sequences: how uneven work is, and what dealing the same global batch again would give.

The sequences of a step are dealt to its micro-batches again: the one that costs most first, each to
the micro-batch that costs least so far and has room (no micro-batch gets more tokens than one has
had). The order of steps and what each step learns from stay as they are. How long a step computes
is modelled for both, as dealt and dealt again, so that the model's error is in both.

Shape suffixes: R replicas, M micro-batches.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.loading.cost_model import CostModel, fit_cost
from diagnosis.statistics.pipeline_time import pipeline_time
from diagnosis.statistics.rank_tables import Floats, Ints, placed
from trace_hooks.schema import UNKNOWN

QUESTIONS = ("batch_lengths", "microbatch_work", "rank_places")

FEWEST_STEPS = 3
MOST_LOOKS = 64

Lengths = tuple[int, ...]


@dataclass(frozen=True)
class Takes:
    """How long a step computes, ms: where replicas wait for each other at the end of the step
    (data parallel), after each micro-batch (fully sharded), or a pipeline's stages run 1F1B.
    """

    at_step: float
    at_microbatch: float
    in_pipeline: float | None  # None: no pipeline


@dataclass(frozen=True)
class DealtStep:
    """A step as it was dealt, and dealt again: None where its sequences do not fit that way, as
    where rows are packed to the brim. `drawn_RM`, `dealt_RM`: modelled ms. `measured_RM`: ms, NaN
    where it was not measured.
    """

    step: int
    drawn_RM: Floats
    dealt_RM: Floats | None
    measured_RM: Floats
    drawn: Takes
    dealt: Takes | None


@dataclass(frozen=True)
class Balance:
    """Of the steps whose lengths are known. `rank_R`: first rank of each replica."""

    model: CostModel
    steps: tuple[DealtStep, ...]
    rank_R: Ints
    num_stages: int

    @cached_property
    def of_microbatches(self) -> float:
        """Longest micro-batch of a step to its mean one, modelled, median of the steps."""
        return float(np.median([_uneven(step.drawn_RM) for step in self.steps]))

    @cached_property
    def of_replicas(self) -> float:
        """The same of replicas."""
        return float(np.median([_uneven(step.drawn_RM.sum(axis=1)) for step in self.steps]))

    def gain(self, where: str) -> float | None:
        """Share of the steps' computing that dealing again saves; `where`: a field of Takes. None
        where too few steps can be dealt again, or it does not apply.
        """
        both = [(step.drawn, step.dealt) for step in self.steps if step.dealt is not None]
        drawn = [getattr(one, where) for one, _ in both]
        if len(both) < FEWEST_STEPS or None in drawn:
            return None
        dealt = [getattr(one, where) for _, one in both]
        return 1 - float(sum(dealt)) / float(sum(drawn))


def balance_of(tables: Mapping[str, pa.Table]) -> Balance | None:
    """Of the answers to QUESTIONS; None where lengths were not stated, or are all alike."""
    steps = _steps(tables["batch_lengths"])
    if len(steps) < FEWEST_STEPS:
        return None
    rank_R = np.array(sorted({rank for step in steps.values() for rank, _ in step}), np.int64)
    places = tables["rank_places"]
    work = _measured(tables["microbatch_work"], placed(rank_R, places).on_cpu)
    model = _model(steps, work)
    if model is None:
        return None
    stages = int(pc.max(pc.fill_null(places["pp"], 0)).as_py() or 0) + 1
    most = max(sum(lengths) for step in steps.values() for lengths in step.values())
    found = []
    for number, lengths in steps.items():
        drawn_RM = _spread({key: model.of(own) for key, own in lengths.items()}, rank_R)
        if np.isnan(drawn_RM).any():
            continue
        dealt_RM = _dealt(lengths, model, most, drawn_RM.shape)
        measured_RM = _spread({key: work.ms.get((number, *key), np.nan) for key in lengths}, rank_R)
        drawn = _takes(drawn_RM, stages, work.backward)
        dealt = None if dealt_RM is None else _takes(dealt_RM, stages, work.backward)
        found.append(DealtStep(number, drawn_RM, dealt_RM, measured_RM, drawn, dealt))
    return Balance(model, tuple(found), rank_R, stages) if len(found) >= FEWEST_STEPS else None


def _uneven(values: Floats) -> float:
    return float(values.max() / values.mean())


@dataclass(frozen=True)
class _Work:
    """`ms` by (step, rank, micro-batch), -1 the whole step. `backward`: its share of it."""

    ms: Mapping[tuple[int, int, int], float]
    backward: float


def _steps(table: pa.Table) -> dict[int, dict[tuple[int, int], Lengths]]:
    """By step, rank and micro-batch."""
    steps = defaultdict[int, dict[tuple[int, int], Lengths]](dict)
    for row in table.to_pylist():
        steps[row["step"]][row["rank"], row["microbatch"]] = tuple(row["lengths"])
    return dict(steps)


def _measured(table: pa.Table, on_cpu: bool) -> _Work:
    """Forward and backward of each micro-batch, in CPU time where that is what computes."""
    ms = defaultdict[tuple[int, int, int], float](float)
    forwards = backwards = 0.0
    for row in table.to_pylist():
        suffix = "_cpu_ms" if on_cpu and row["forward_cpu_ms"] else "_ms"
        forward, backward = row[f"forward{suffix}"] or 0.0, row[f"backward{suffix}"] or 0.0
        forwards, backwards = forwards + forward, backwards + backward
        for microbatch in {row["microbatch"], UNKNOWN}:
            ms[row["step"], row["rank"], microbatch] += forward + backward
    return _Work(dict(ms), backwards / max(forwards + backwards, 1e-9))


def _model(steps: Mapping[int, Mapping[tuple[int, int], Lengths]], work: _Work) -> CostModel | None:
    rows = [
        (sum(own), sum(length**2 for length in own), work.ms.get((step, *key), np.nan))
        for step, lengths in steps.items()
        for key, own in lengths.items()
    ]
    return fit_cost(*np.array(rows, np.float64).T)


def _spread(values: Mapping[tuple[int, int], float], rank_R: Ints) -> Floats:
    """(R, M) of values by rank and micro-batch; NaN where there is none."""
    microbatch_M = sorted({microbatch for _, microbatch in values})
    ms_RM = np.full((rank_R.size, len(microbatch_M)), np.nan)
    for (rank, microbatch), value in values.items():
        ms_RM[np.searchsorted(rank_R, rank), microbatch_M.index(microbatch)] = value
    return ms_RM


def _dealt(
    lengths: Mapping[tuple[int, int], Lengths], model: CostModel, most: int, shape: tuple[int, ...]
) -> Floats | None:
    """Costs of the micro-batches, dealt again: those that cost alike run at the same time, and
    replicas get as much; None where the sequences do not fit.
    """
    every = sorted((length for own in lengths.values() for length in own), reverse=True)
    parts = deal(every, [model.of_sequence(length) for length in every], shape[0] * shape[1], most)
    if parts is None:
        return None
    costs = sorted((model.of(part) for part in parts), reverse=True)
    dealt_MR = np.array(costs).reshape(shape[1], shape[0])
    dealt_MR[1::2] = dealt_MR[1::2, ::-1]
    return dealt_MR.T


def deal(
    lengths: Sequence[int], costs: Sequence[float], num: int, most: int
) -> list[list[int]] | None:
    """Sequences in `num` micro-batches of at most `most` tokens: in their order, each to the one
    that costs least so far and has room; None where none of the MOST_LOOKS cheapest has.
    """
    parts: list[list[int]] = [[] for _ in range(num)]
    tokens = [0] * num
    cheapest = [(0.0, part) for part in range(num)]
    for length, cost in zip(lengths, costs, strict=True):
        full: list[tuple[float, int]] = []
        while cheapest and tokens[cheapest[0][1]] + length > most and len(full) < MOST_LOOKS:
            full.append(heapq.heappop(cheapest))
        if not cheapest or len(full) == MOST_LOOKS:
            return None
        so_far, part = cheapest[0]
        heapq.heapreplace(cheapest, (so_far + cost, part))
        parts[part].append(length)
        tokens[part] += length
        for one in full:
            heapq.heappush(cheapest, one)
    return parts


def _takes(ms_RM: Floats, num_stages: int, backward: float) -> Takes:
    in_pipeline = None
    if num_stages > 1:
        ms_MRS = ms_RM.T[:, :, None]
        takes_RS = pipeline_time(ms_MRS * (1 - backward), ms_MRS * backward, num_stages)
        in_pipeline = float(takes_RS.max())
    return Takes(float(ms_RM.sum(axis=1).max()), float(ms_RM.max(axis=0).sum()), in_pipeline)
