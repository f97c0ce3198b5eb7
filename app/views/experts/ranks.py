"""What the page Experts says of ranks: how long their all-to-alls take, where time is idle."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.views.experts.holders import balance_of, ep_ranks_of
from app.views.experts.loads import Steps, loads_of
from diagnosis.experts.load import saved_by_balance
from diagnosis.experts.measured import Measured, passes_of
from diagnosis.experts.same_ranks import MOST_MICRO_BATCHES
from ingest.run import Run
from ingest.stopping import Stop

MOST_ROWS = 128

Row = dict[str, Any]


@dataclass(frozen=True)
class PingPongRow:
    """One pass of micro-batches between attention and experts, by what was measured. Times in ms
    of one micro-batch and layer; `total_ms`: of all of them; `*_idle`: shares of it, 0 to 1.
    `stage`: -1 unknown, or several; `least`: micro-batches needed, None: no number is enough.
    """

    stage: int
    num_ranks: int
    on_same_ranks: bool
    attention_ms: float
    expert_ms: float
    transfer_ms: float
    micro_batches: int
    layers: int
    total_ms: float
    least: int | None
    are_equal: bool
    is_transfer_hidden: bool
    are_enough: bool
    attention_idle: float
    experts_idle: float


@dataclass(frozen=True)
class Saving:
    """What a step would save if all EP ranks had equally many tokens: of `step_ms`; None unknown.
    `longer_ms`: by how much the rank that computes experts longest was seen to take longer than
    the mean of its stage.
    """

    ms: float
    longer_ms: float
    step_ms: float | None


@dataclass(frozen=True)
class ExpertRanks:
    """`times`: plain rows of the saved query expert_times, slowest all-to-alls first; `num_ranks`:
    how many there are, of which these are the first; `read_steps`: from which steps. `ping_pong`:
    most idle first. `saving`: None where experts were not timed, or it is not known where they lie.
    """

    times: tuple[Row, ...]
    num_ranks: int
    read_steps: Steps | None
    ping_pong: tuple[PingPongRow, ...]
    saving: Saving | None


def expert_ranks_of(run: Run, attempt: int, steps: Steps, stop: Stop | None = None) -> ExpertRanks:
    """Of the steps, both included."""
    within = {"attempt": attempt, "step_min": steps[0], "step_max": steps[1]}
    found = run.ask("expert_times", **within, stop=stop)
    rows = found.to_pylist()
    called = [row for row in rows if row["all_to_alls"]]
    called.sort(key=lambda row: (-row["all_to_all_p99_ms"], row["rank"]))
    passes = [_ping_pong(one) for one in passes_of(found)]
    passes.sort(key=lambda one: (-max(one.attention_idle, one.experts_idle), one.stage))
    read = _read(rows)
    return ExpertRanks(
        times=tuple(called[:MOST_ROWS]),
        num_ranks=len(called),
        read_steps=read,
        ping_pong=tuple(passes),
        saving=None if read is None else _saving(run, attempt, read, rows, stop),
    )


def _read(rows: Sequence[Row]) -> Steps | None:
    known = [(row["first_step"], row["last_step"]) for row in rows if row["first_step"] is not None]
    return (min(one for one, _ in known), max(one for _, one in known)) if known else None


def _ping_pong(one: Measured) -> PingPongRow:
    times = one.times
    least = times.least_micro_batches
    return PingPongRow(
        stage=one.stage,
        num_ranks=len(one.ranks),
        on_same_ranks=one.on_same_ranks,
        attention_ms=times.attention,
        expert_ms=times.experts,
        transfer_ms=times.transfer,
        micro_batches=times.micro_batches,
        layers=times.layers,
        total_ms=times.total,
        least=least if least <= MOST_MICRO_BATCHES or not one.on_same_ranks else None,
        are_equal=times.are_equal,
        is_transfer_hidden=times.is_transfer_hidden,
        are_enough=times.are_enough,
        attention_idle=times.attention_idle,
        experts_idle=times.experts_idle,
    )


def _saving(
    run: Run, attempt: int, steps: Steps, rows: Sequence[Row], stop: Stop | None
) -> Saving | None:
    """A pipeline moves with the stage that takes longest, before and after."""
    layers = loads_of(run, attempt, steps, stop=stop).layers
    balance = balance_of(layers, ep_ranks_of(run, attempt, layers, stop))
    stage_of = {row["rank"]: row["stage"] for row in rows}
    ratios = defaultdict[int | None, list[float]](list)
    for one in balance:
        ratios[stage_of.get(one.most.rank)].append(one.ratio)
    even, uneven, longer = [], [], []
    for stage, of_layers in ratios.items():
        times = [row["expert_step_ms"] for row in rows if row["stage"] == stage]
        known = [one for one in times if one is not None]
        if known:
            mean = float(np.mean(known))
            even.append(mean)
            longer.append(max(known) - mean)
            uneven.append(mean + saved_by_balance(np.array(of_layers), mean))
    if not even:
        return None
    lengths = [row["step_ms"] for row in rows if row["step_ms"] is not None]
    step_ms = float(np.median(lengths)) if lengths else math.nan
    return Saving(
        ms=max(uneven) - max(even),
        longer_ms=max(longer),
        step_ms=None if math.isnan(step_ms) else step_ms,
    )
