"""Which change of a job's parallelism would save most, from its own measured times.

One change at a time: the schedule, the number of micro-batches, chunks, the cut into stages, more
or fewer stages with as many devices, no stragglers. Not predicted: other sizes of tensor
parallelism (what a layer takes on other numbers of devices was not measured).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from diagnosis.whatif.operations import Floats
from diagnosis.whatif.schedules.changes import AS_MEASURED, Changes, typical
from diagnosis.whatif.schedules.measured import Cell, Measured
from diagnosis.whatif.schedules.names import NAMES, OVERLAPPING
from diagnosis.whatif.schedules.predict import plan_for, predict

DEFAULT = "1f1b"
"""Where the job's own order is none that is known."""

ORDER_ERROR = 0.05
"""Added error of a prediction under another schedule or cut: the worst one of benchmarks/schedules
whose operations sleep.
"""

SIZE_ERROR = 0.05
"""Added error where micro-batches have another size: kernels are less efficient on less work, and
by how much was not measured.
"""


@dataclass(frozen=True)
class Advice:
    """`change`: what to do, in words. `step_s`: predicted step. `saves`: share of the measured step
    that it saves; `error`: by how much that may be off, as the replay of the job's own schedule is
    and by what is assumed. `needs`: what it costs otherwise. `name`, `changes`: for a prediction.
    """

    change: str
    step_s: float
    saves: float
    error: float
    needs: tuple[str, ...] = ()
    name: str = DEFAULT
    changes: Changes = AS_MEASURED
    has_same_stages: bool = True

    @property
    def is_certain(self) -> bool:
        """Whether it saves more than it may be off."""
        return self.saves > self.error


@dataclass(frozen=True)
class Advised:
    """All changes, the most saving first. `own`: the job's schedule, empty where its order is none
    that is known. `step_s`: measured, and `rest_s` of it before and after the pipeline.
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
    """For a job whose steps take `step_s` on average; `go_on` is called between predictions."""
    own = own_schedule(job)
    name = own or DEFAULT
    usual = predict(job, name, changes=Changes(chunks=job.sizes[1]))
    assert usual.expected_s is not None, usual.reason
    error = abs(usual.expected_s / job.measured_s - 1)
    rest_s = max(step_s - job.measured_s, 0.0)
    found = []
    for one in _candidates(job, name):
        go_on()
        predicted = predict(one.job, one.name, changes=one.changes)
        if predicted.expected_s is None or predicted.num_devices != job.sizes[0] * one.devices:
            continue
        # as much faster as the replay says: what the replay does not know stays as it is
        span_s = job.measured_s * predicted.expected_s / usual.expected_s
        new_s = span_s + rest_s * one.rest
        held, before = max(predicted.in_flight), max(usual.in_flight)
        needs = list(one.needs)
        if held * one.share > before * 1.01:
            needs.append(f"memory for {held * one.share / before:.2g} times the activations")
        found.append(
            Advice(
                one.change,
                new_s,
                1 - new_s / step_s,
                error + one.error,
                tuple(needs),
                one.name,
                one.changes,
                one.devices == 1,
            )
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
    changes: Changes = AS_MEASURED
    needs: tuple[str, ...] = ()
    error: float = 0.0
    share: float = 1.0
    rest: float = 1.0
    devices: float = 1.0


def _candidates(job: Measured, own: str) -> Iterator[_Candidate]:
    p, v, m = job.sizes
    as_now = Changes(chunks=v)
    for name in NAMES:
        if name != own:
            needs = ("an optimizer that waits for nobody",) if name in OVERLAPPING else ()
            text = f"run {name} instead of {own}"
            yield _Candidate(text, name, job, needs=needs, error=ORDER_ERROR)
    for many in (m // 2, 2 * m, 4 * m):
        if many >= 1:
            yield _Candidate(
                f"{many} micro-batches of {m / many:g} times the size",
                own,
                job,
                replace(as_now, microbatches=many),
                error=SIZE_ERROR,
                share=m / many,
            )
    for chunks in (2, 4):  # two are what `interleaved` has if the job has none
        if chunks not in (v, 2 if v == 1 else v):
            changes = Changes(chunks=chunks)
            text = f"interleaved with {chunks} chunks"
            yield _Candidate(text, "interleaved", job, changes, error=ORDER_ERROR)
    equal = replace(as_now, split=(1.0,) * p)
    needs = ("another cut into stages",)
    yield _Candidate("stages of equal time", own, job, equal, needs, ORDER_ERROR)
    yield _Candidate(
        "no stragglers: ranks and steps as fast as the median",
        own,
        job,
        replace(as_now, has_stragglers=False),
        ("knowing why some are slower",),
    )
    fewer, more = _half_the_stages(job), _twice_the_stages(job)
    if fewer is not None:
        text = f"pp {p // 2} and twice the replicas"
        needs = ("twice the weights and optimizer state on a device",)
        yield _Candidate(text, own, fewer, as_now, needs, ORDER_ERROR, 2.0, 2.0, 0.5)
    if more is not None:
        text = f"pp {2 * p} and half the replicas"
        needs = ("stages that can be cut in halves",)
        yield _Candidate(text, own, more, as_now, needs, ORDER_ERROR, 0.5, 0.5, 2.0)


@dataclass(frozen=True)
class _Parts:
    """What makes the times of one kind in one step. `usual_P`: of each stage, s. `data_DM`: times
    that a micro-batch takes, on all stages of its replica; `device_DPM`: times that it takes on one
    device beyond that.
    """

    usual_P: Floats
    data_DM: Floats
    device_DPM: Floats


def _parts(own: list[Floats], usual_PVM: Floats) -> _Parts:
    usual_P = usual_PVM[..., 0].sum(axis=1)
    times_DPM = np.stack(own).sum(axis=2) / usual_P[:, None]
    data_DM = np.median(times_DPM, axis=1)
    return _Parts(usual_P, data_DM, times_DPM / data_DM[:, None])


def _half_the_stages(job: Measured) -> Measured | None:
    """Pairs of stages on each of their two devices, which share the micro-batches of a replica."""
    p, v, m = job.sizes
    if p % 2 or p < 4 or m % 2 or v > 1:
        return None

    def regroup(parts: _Parts) -> list[Floats]:
        pair_Q = parts.usual_P[0::2] + parts.usual_P[1::2]
        return [
            (pair_Q[:, None] * data_M * device_PM[which::2])[:, None, half]
            for data_M, device_PM in zip(parts.data_DM, parts.device_DPM, strict=True)
            for which, half in ((0, slice(0, m // 2)), (1, slice(m // 2, m)))
        ]

    return replace(
        _regrouped(job, regroup),
        forward_transfer_P=job.forward_transfer_P[1::2],
        backward_transfer_P=job.backward_transfer_P[0::2],
    )


def _twice_the_stages(job: Measured) -> Measured | None:
    """Halves of a stage on devices of two replicas, whose micro-batches both run."""
    p, v, m = job.sizes
    if len(job.steps[0]) % 2 or v > 1:
        return None

    def regroup(parts: _Parts) -> list[Floats]:
        half_R = np.repeat(parts.usual_P / 2, 2)
        made = []
        for one in range(0, len(parts.data_DM), 2):
            data_N = parts.data_DM[one : one + 2].ravel()
            device_RM = parts.device_DPM[one : one + 2].swapaxes(0, 1).reshape(2 * p, m)
            made.append((half_R[:, None] * data_N * np.tile(device_RM, 2))[:, None])
        return made

    return replace(
        _regrouped(job, regroup),
        forward_transfer_P=np.repeat(job.forward_transfer_P, 2),
        backward_transfer_P=np.repeat(job.backward_transfer_P, 2),
    )


def _regrouped(job: Measured, regroup: Callable[[_Parts], list[Floats]]) -> Measured:
    usual = typical(job)
    steps = []
    for step in job.steps:
        forward, backward = (
            regroup(_parts(own, usual_PVM))
            for own, usual_PVM in (
                ([cell.forward_PVM for cell in step], usual.forward_PVM),
                ([cell.backward_PVM for cell in step], usual.backward_PVM),
            )
        )
        steps.append(tuple(map(Cell, forward, backward)))
    return replace(job, steps=tuple(steps))
