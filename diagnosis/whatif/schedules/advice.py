"""Which change of a job's parallelism would save most, from its own measured times.

One change at a time: the schedule, the number of micro-batches, chunks, the cut into stages, more
or fewer stages with as many devices, even ranks, even micro-batches. Not predicted: other sizes of
tensor parallelism (what a layer takes on other numbers of devices was not measured).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from diagnosis.whatif.operations import NotAnswerable
from diagnosis.whatif.schedules import evenness
from diagnosis.whatif.schedules.changes import AS_MEASURED, Changes, changed
from diagnosis.whatif.schedules.measured import Measured
from diagnosis.whatif.schedules.names import NAMES, ONE_CHUNK, OVERLAPPING
from diagnosis.whatif.schedules.predict import plan_for, predict

MOST_ERROR = 0.1
"""Share by which the replay of the job's own schedule may be off; beyond, nothing is predicted."""

ORDER_ERROR = 0.18
"""Added error of a prediction under another schedule or cut. Chunks and gradients of weights of
their own were not measured; the worst job of docs/which-schedule.md took so much longer.
"""

EVEN_ERROR = 0.02
"""Added error where ranks or micro-batches are made even: their share is a median over the steps.
"""

SIZE_ERROR = 0.1
"""Added error where micro-batches have another size. A guess: kernels are less efficient on less
work, and by how much was not measured.
"""


@dataclass(frozen=True)
class Advice:
    """`change`: what to do, in words. `step_s`: predicted step. `saves`: share of the measured step
    that it saves; `error`: by how much that may be off, as the replay of the job's own schedule is
    and by what is assumed. `needs`: what it takes. `name`, `changes`: for a prediction of the same;
    `has_link`: whether these are all of the change.
    """

    change: str
    step_s: float
    saves: float
    error: float
    needs: tuple[str, ...]
    name: str
    changes: Changes
    has_link: bool

    @property
    def is_certain(self) -> bool:
        """Whether it saves more than it may be off."""
        return self.saves > self.error


@dataclass(frozen=True)
class Advised:
    """All changes, the most saving first. `own`: the job's schedule. `step_s`: measured, and
    `rest_s` of it before and after the pipeline. `error`: of the replay of `own`.
    """

    own: str
    step_s: float
    rest_s: float
    error: float
    advice: tuple[Advice, ...]


def own_schedule(job: Measured) -> str:
    """The schedule in whose order the job runs; empty for another order."""
    for name in NAMES:
        try:
            plan = plan_for(job, name, Changes(chunks=job.sizes[1]))
        except ValueError:
            continue
        if not plan.is_split and plan.orders == job.order:
            return name
    return ""


def advise(job: Measured, step_s: float, go_on: Callable[[], object]) -> Advised:
    """For a job whose steps take `step_s` on average; `go_on` is called between predictions. Raises
    NotAnswerable where its own schedule is not known or cannot be replayed well.
    """
    job = replace(job, memory=None)  # some changes have other stages
    own = own_schedule(job)
    if not own:
        raise NotAnswerable(
            "the job runs its operations in the order of no schedule that rankscope knows, so "
            "nothing can be compared with it"
        )
    try:
        usual = predict(job, own, changes=Changes(chunks=job.sizes[1]))
        candidates = list(_candidates(job, own))
    except ValueError as problem:
        raise NotAnswerable(str(problem)) from None
    if usual.expected_s is None:
        raise NotAnswerable(usual.reason)
    error = abs(usual.expected_s / job.measured_s - 1)
    if error > MOST_ERROR:
        raise NotAnswerable(
            f"the pipeline takes {job.measured_s:.3g} s, and {usual.expected_s:.3g} s by replay of "
            f"its own schedule ({own}); predictions of changes would be off by as much"
        )
    rest_s, found = max(step_s - job.measured_s, 0.0), []
    for one in candidates:
        go_on()
        predicted = predict(one.job, one.name, changes=one.changes)
        if predicted.expected_s is None or predicted.num_devices != job.sizes[0] * one.devices:
            continue
        # as much faster as the replay says: what the replay does not know stays as it is
        span_s = job.measured_s * predicted.expected_s / usual.expected_s
        new_s = span_s + rest_s * one.rest
        needs, held = list(one.needs), max(predicted.in_flight) * one.share
        if held > max(usual.in_flight) * 1.01:
            times = held / max(usual.in_flight)
            many = f"{times:.2g}" if times < 10 else f"{times:,.0f}"
            needs.append(f"memory for {many} times the activations")
        link = one.job is job
        saves, off = 1 - new_s / step_s, error + one.error
        found.append(
            Advice(one.change, new_s, saves, off, tuple(needs), one.name, one.changes, link)
        )
    found.sort(key=lambda advice: advice.step_s)
    return Advised(own, step_s, rest_s, error, tuple(found))


@dataclass(frozen=True)
class _Candidate:
    """`share`: size of a micro-batch's activations on a device against today's; `rest`: of what is
    outside the pipeline; `devices`: of a replica, times today's.
    """

    change: str
    name: str
    job: Measured
    changes: Changes
    needs: tuple[str, ...] = ()
    error: float = ORDER_ERROR
    share: float = 1.0
    rest: float = 1.0
    devices: float = 1.0


def _candidates(job: Measured, own: str) -> Iterator[_Candidate]:
    v = job.sizes[1]
    as_now = Changes(chunks=v)
    for name in NAMES:
        if name != own:
            text = f"run {name} instead of {own}"
            yield _Candidate(text, name, job, AS_MEASURED, _needs_of(name, v))
    yield from _of_other_sizes(job, own, as_now)
    equal = replace(as_now, split=(1.0,) * job.sizes[0])
    yield _Candidate("stages of equal time", own, job, equal, ("another cut into stages",))
    if v > 1:
        return
    for text, times, why in (
        ("ranks as fast as the median of their stage", evenness.even_ranks, "ranks"),
        ("micro-batches of equal size", evenness.even_microbatches, "micro-batches"),
    ):
        needs = (f"knowing why some {why} take longer",)
        yield _Candidate(text, own, evenness.regrouped(job, times), as_now, needs, EVEN_ERROR)
    yield from _of_other_stages(job, own, as_now)


def _needs_of(name: str, own_chunks: int) -> tuple[str, ...]:
    needs = []
    if name.startswith(("zb", "interleaved-zb", "dualpipe")):
        needs.append("backwards in two parts")
    if name in OVERLAPPING:
        needs.append("an optimizer that waits for nobody")
    if name not in ONE_CHUNK and own_chunks == 1:
        needs.append("twice the transfers")
    return tuple(needs)


def _of_other_sizes(job: Measured, own: str, as_now: Changes) -> Iterator[_Candidate]:
    _, v, m = job.sizes
    for many, size in ((m // 2, "twice"), (2 * m, "half"), (4 * m, "a quarter of")):
        if many >= 1 and (many > m or m % 2 == 0) and _is_possible(job, many):
            text = f"{many} micro-batch{'es' * (many != 1)} of {size} the size"
            needs = ("micro-batches that can be divided",) if many > m else ()
            changes = replace(as_now, microbatches=many)
            yield _Candidate(text, own, job, changes, needs, SIZE_ERROR, m / many)
    if v != 4:
        changes = Changes(chunks=4)
        needs = (f"{4 / v:.3g} times the transfers",) if v < 4 else ()
        yield _Candidate("interleaved with 4 chunks", "interleaved", job, changes, needs)


def _is_possible(job: Measured, many: int) -> bool:
    try:
        changed(job, Changes(microbatches=many))
    except ValueError:
        return False
    return True


def _of_other_stages(job: Measured, own: str, as_now: Changes) -> Iterator[_Candidate]:
    p, _, m = job.sizes
    if p % 2 == 0 and p >= 4 and m % 2 == 0:
        fewer = replace(
            evenness.regrouped(job, evenness.half_the_stages),
            forward_transfer_P=job.forward_transfer_P[1::2],
            backward_transfer_P=job.backward_transfer_P[0::2],
        )
        needs = ("twice the weights and optimizer state on a device",)
        text = f"pp {p // 2} and twice the replicas"
        yield _Candidate(text, own, fewer, as_now, needs, share=2.0, rest=2.0, devices=0.5)
    if len(job.steps[0]) % 2 == 0:
        more = replace(
            evenness.regrouped(job, evenness.twice_the_stages),
            forward_transfer_P=job.forward_transfer_P.repeat(2),
            backward_transfer_P=job.backward_transfer_P.repeat(2),
        )
        needs = ("stages that can be cut in halves",)
        text = f"pp {2 * p} and half the replicas"
        yield _Candidate(text, own, more, as_now, needs, share=0.5, rest=0.5, devices=2.0)
