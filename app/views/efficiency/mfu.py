"""Where the time of the devices goes, and since when more of it is lost: the same for the page and
for `rankscope mfu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.views.ranks.metric_matrix import Steps
from app.views.run.hook_costs import warm_from
from diagnosis.mfu.change_point import Decline, decline, smallest_shown
from diagnosis.mfu.comparison import Comparison, compare, is_loss
from diagnosis.mfu.explain import QUESTIONS as EXPLAINED_BY
from diagnosis.mfu.explain import Cause, Window, causes
from diagnosis.mfu.operations import QUESTIONS as OPERATIONS_FROM
from diagnosis.mfu.operations import Operations, operations_of
from diagnosis.mfu.parts import DIRECT
from diagnosis.mfu.step_times import QUESTIONS, StepTimes, step_times
from diagnosis.mfu.text import sentence, since_text, steady_text
from diagnosis.mfu.waterfall import Waterfall, waterfall
from diagnosis.statistics.step_levels import WARM_UP_STEPS
from diagnosis.statistics.units import steps_text
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

MOST_CELLS = 400_000
"""Ranks x steps that a decline is looked for in, the newest."""
MOST_RANKS_SHOWN = 3


@dataclass(frozen=True)
class RankTime:
    """A rank that has much of a part, ms per step; of waiting, what it makes others wait."""

    rank: int
    ms: float


@dataclass(frozen=True)
class Efficiency:
    """`ranks`: by part, those that have most of it; `operations`: its longest ones, ms per step."""

    waterfall: Waterfall
    ranks: dict[str, tuple[RankTime, ...]]
    operations: Operations


@dataclass(frozen=True)
class Change:
    """`comparison`: None where no decline is seen, or where there are too few steps.
    `of_long_steps`: what changed is how many steps are unusually long.
    """

    sentence: str
    comparison: Comparison | None = None
    causes: tuple[Cause, ...] = ()
    of_long_steps: bool = False


@dataclass(frozen=True)
class Asked:
    """Attempt of a run, peak of a device in 1e12 FLOP/s (None: by the device table)."""

    run: Run
    attempt: int
    peak_tflops: float | None = None
    stop: Stop | None = None

    def times(self, steps: Steps | None = None) -> StepTimes:
        """What the steps went to (both included; None: all)."""
        asked = {"attempt": self.attempt, "stop": self.stop} | _bounds(steps)
        peak = {} if self.peak_tflops is None else {"peak_tflops": self.peak_tflops}
        answers = {
            name: self.run.ask(name, **asked, **(peak if name == "throughput" else {}))
            for name in QUESTIONS
        }
        try:
            return step_times(answers)
        except ValueError as error:
            raise UserError(str(error)) from None

    def window(self, times: StepTimes) -> Window:
        """What is needed to say why it changed."""
        steps = int(times.step_S[0]), int(times.step_S[-1])
        asked = {"attempt": self.attempt, "stop": self.stop} | _bounds(steps)
        return Window(times, {name: self.run.ask(name, **asked) for name in EXPLAINED_BY})


def _bounds(steps: Steps | None) -> dict[str, Any]:
    return {} if steps is None else {"step_min": steps[0], "step_max": steps[1]}


def efficiency_of(asked: Asked, steps: Steps) -> Efficiency | None:
    """The waterfall of some steps, both included; None where none of them is finished."""
    found = waterfall(asked.times(steps))
    if found is None:
        return None
    given = {"attempt": asked.attempt, "stop": asked.stop} | _bounds(steps)
    rows = asked.run.ask("device_time_by_rank", **given).to_pylist()
    ranks = {bar.name: _ranks_of(bar.name, rows) for bar in found.bars}
    tables = {name: asked.run.ask(name, **given) for name in OPERATIONS_FROM}
    return Efficiency(found, ranks, operations_of(tables))


def without_steps(run: Run) -> str:
    """Why a run without a finished step has nothing to show."""
    over = run.state == "finished"
    return "No step times were recorded." if over else "No step is finished yet."


def _ranks_of(name: str, rows: Sequence[dict[str, Any]]) -> tuple[RankTime, ...]:
    column = "wait_caused_ms" if name == "waiting" else f"{name}_ms"
    known = [(row["rank"], row[column]) for row in rows if row[column]]
    most = sorted(known, key=lambda pair: (-pair[1], pair[0]))[:MOST_RANKS_SHOWN]
    return tuple(RankTime(rank, ms) for rank, ms in most)


def decline_of(asked: Asked) -> Change:
    """Since when the newest steps of an attempt lose more than those before."""
    times = asked.times(_newest(asked))
    if not times.step_S.size:
        return Change(without_steps(asked.run))
    found = decline(times.work_ms_S, {name: times.longest(name) for name in DIRECT})
    first, last = int(times.step_S[0]), int(times.step_S[-1])
    if found is None:
        return Change(steady_text(first, last, smallest_shown(times.work_ms_S)))
    step_S = times.step_S.tolist()
    before, after = (
        times.within(step_S[low], step_S[high]) for low, high in (found.before, found.after)
    )
    change = _change((asked, before), (asked, after), since_text(found, step_S), found)
    assert change.comparison is not None
    if not is_loss(change.comparison, found.long_steps):
        return Change(steady_text(first, last, smallest_shown(times.work_ms_S)))
    return change


def change_between(asked: Asked, before: Steps, after: Steps) -> Change:
    """From one window of steps to another; raises UserError where one has too few."""
    compared = f"from {steps_text(*before)} to {steps_text(*after)}"
    return _change((asked, asked.times(before)), (asked, asked.times(after)), compared)


def change_from(other: Asked, asked: Asked, steps: Steps | None, name: str) -> Change:
    """From another run, without its warm-up, to steps of this one; raises UserError."""
    before, after = (
        without_warm_up(one, one.times(at)) for one, at in ((other, None), (asked, steps))
    )
    return _change((other, before), (asked, after), f"compared with {name}")


def without_warm_up(asked: Asked, times: StepTimes) -> StepTimes:
    """Without the first steps of the attempt, where enough others are left. A job that resumes
    warms up again, whatever the number of its first step.
    """
    later = times.within(warm_from(asked.run, asked.attempt), 2**62)
    return later if later.step_S.size > WARM_UP_STEPS else times


def _change(
    was: tuple[Asked, StepTimes],
    now: tuple[Asked, StepTimes],
    since: str,
    found: Decline | None = None,
) -> Change:
    """`found`: what the windows come from."""
    part = None if found is None else found.part
    try:
        comparison = compare(was[1], now[1], part)
    except ValueError as error:
        raise UserError(str(error)) from None
    before, after = (asked.window(times) for asked, times in (was, now))
    why = causes(comparison, before, after)
    of_long_steps = found is not None and found.long_steps
    return Change(sentence(comparison, since, why, of_long_steps), comparison, why, of_long_steps)


def _newest(asked: Asked) -> Steps | None:
    """The newest steps of an attempt, as many as fit."""
    summary = asked.run.ask("run_summary", stop=asked.stop).to_pylist()
    row = next((row for row in summary if row["attempt"] == asked.attempt), None)
    if row is None or row["last_step"] is None:
        return None
    most = max(MOST_CELLS // max(row["num_ranks"], 1), 1)
    return max(row["last_step"] - most + 1, 0), row["last_step"]


def as_json(found: Efficiency | None) -> dict[str, Any] | None:
    """Plain values: those of the waterfall, the ranks of each bar with it."""
    if found is None:
        return None
    plain = asdict(found.waterfall)
    for bar in plain["bars"]:
        bar["ranks"] = [asdict(rank) for rank in found.ranks[bar["name"]]]
        named = found.operations.get(bar["name"], ())
        bar["operations"] = [{"name": name, "ms": ms} for name, ms in named]
    return plain
