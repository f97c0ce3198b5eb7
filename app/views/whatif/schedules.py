"""What the pipeline of a run would take under other schedules, as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from app.views.whatif.analysis import Answer
from diagnosis.whatif.operations import NotAnswerable
from diagnosis.whatif.optypes import BACKWARD as BACKWARD_COMPUTE
from diagnosis.whatif.optypes import FORWARD as FORWARD_COMPUTE
from diagnosis.whatif.schedules.advice import Advice, advise
from diagnosis.whatif.schedules.changes import Changes, changed
from diagnosis.whatif.schedules.holding import most_held_by_device
from diagnosis.whatif.schedules.measured import Measured, measured
from diagnosis.whatif.schedules.names import NAMES
from diagnosis.whatif.schedules.plan import BACKWARD, FORWARD
from diagnosis.whatif.schedules.predict import predict, replayed_cell
from ingest.errors import UserError

EQUAL = "equal"
FIELDS = (
    "microbatches",
    "chunks",
    "held",
    "memory",
    "split",
    "stragglers",
    "forward_speed",
    "handover_ms",
)
"""Changes of the job in a link, and as parameters of routes."""

_DIGITS = 7
"""Of times in a timeline, s."""

_SHARE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

TENSOR_PARALLEL = (
    "Other sizes of tensor parallelism are not predicted: what a layer takes on other numbers of "
    "devices was not measured."
)


@dataclass(frozen=True)
class Asked:
    """Changes as a link or a command has them; `split`: shares of the stages with commas between
    them, or EQUAL; `memory_gb`: that a device may have allocated, 1e9 B; `forward_speed`,
    `handover_ms`: of schedules with devices of their own for forwards. Raises UserError for one
    that is none.
    """

    microbatches: int | None = None
    chunks: int | None = None
    split: str = ""
    most_held: int | None = None
    has_stragglers: bool = True
    memory_gb: float | None = None
    forward_speed: float | None = None
    handover_ms: float | None = None

    @classmethod
    def of_link(cls, fields: Mapping[str, str]) -> Asked:
        """From FIELDS as texts; raises UserError."""
        sizes = (_whole(name, fields.get(name, "")) for name in ("microbatches", "chunks", "held"))
        microbatches, chunks, most_held = sizes
        split, stragglers = fields.get("split", ""), fields.get("stragglers", "")
        memory_gb = _number("memory", fields.get("memory", ""), "of GB, such as 80")
        speed = _number("forward_speed", fields.get("forward_speed", ""), "such as 0.5")
        handover = _number("handover_ms", fields.get("handover_ms", ""), "of ms, such as 2.5")
        has_stragglers = stragglers != "no"
        return cls(
            microbatches, chunks, split, most_held, has_stragglers, memory_gb, speed, handover
        )

    def changes(self, job: Measured) -> Changes:
        """For a job; raises UserError where they do not fit it."""
        try:
            shares = (1.0,) * job.sizes[0] if self.split == EQUAL else self._shares
            limit = None if self.memory_gb is None else 1e9 * self.memory_gb
            changes = Changes(
                self.microbatches,
                self.chunks,
                shares,
                self.most_held,
                self.has_stragglers,
                limit,
                1.0 if self.forward_speed is None else self.forward_speed,
                (self.handover_ms or 0.0) / 1e3,
            )
            changed(job, changes)
            most_held_by_device(job, changes)
            return changes
        except ValueError as error:
            raise UserError(str(error)) from None

    @property
    def _shares(self) -> tuple[float, ...]:
        parts = self.split.split(",") if self.split else []
        if not all(_SHARE.fullmatch(part) for part in parts):
            raise UserError(
                f"shares of stages are {self.split[:40]!r}; give numbers with commas between them, "
                f"such as 1,1,1,0.8, or {EQUAL}"
            )
        return tuple(map(float, parts))


def _whole(name: str, text: str) -> int | None:
    if text and not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise UserError(f"{name} is {text[:40]!r}; give a whole number from 0")
    return int(text) if text else None


def _number(name: str, text: str, what: str) -> float | None:
    if text and not _SHARE.fullmatch(text):
        raise UserError(f"{name} is {text[:40]!r}; give a number {what}")
    return float(text) if text else None


def schedules_of(answer: Answer, asked: Asked, go_on: Callable[[], object]) -> dict[str, Any]:
    """{"schedules": predictions as of `rankscope whatif --schedule all --json`, in a list, and the
    job's own "sizes"}, or {"reason": sentence} for a job without a pipeline. `go_on` is called
    between them.
    """
    try:
        times = measured(answer.prepared, answer.memory)
    except NotAnswerable as error:
        return {"reason": str(error)}
    changes, found = asked.changes(times), []
    for name in NAMES:
        go_on()
        found.append(asdict(predict(times, name, changes=changes)))
    return {"schedules": found, "sizes": dict(zip(("p", "v", "m"), times.sizes, strict=True))}


def advice_of(answer: Answer, go_on: Callable[[], object]) -> dict[str, Any]:
    """{"own", "step_s", "rest_s", "error", "advice": changes, the most saving first}, or {"reason":
    sentence}. `go_on` is called between predictions.
    """
    try:
        times = measured(answer.prepared, answer.memory)
        advised = advise(times, answer.metrics.T_base_s, go_on)
    except NotAnswerable as error:
        return {"reason": str(error)}
    own = {name: getattr(advised, name) for name in ("own", "step_s", "rest_s", "error")}
    return (
        own
        | {"note": TENSOR_PARALLEL}
        | {"advice": [_as_json(advice, times) for advice in advised.advice]}
    )


def _as_json(advice: Advice, job: Measured) -> dict[str, Any]:
    """`pipeline`: what the page's link needs to show the same change; None where it cannot."""
    changes = advice.changes
    fields: dict[str, str] = {"schedule": advice.name}
    if changes.microbatches is not None:
        fields["microbatches"] = str(changes.microbatches)
    if changes.chunks not in (None, job.sizes[1]):
        fields["chunks"] = str(changes.chunks)
    if changes.split:
        fields["split"] = EQUAL
    if not changes.has_stragglers:
        fields["stragglers"] = "no"
    return {
        "change": advice.change,
        "step_s": advice.step_s,
        "saves": advice.saves,
        "error": advice.error,
        "is_certain": advice.is_certain,
        "needs": list(advice.needs),
        "pipeline": fields if advice.has_link else None,
    }


def timeline_of(answer: Answer, asked: Asked, name: str) -> dict[str, Any]:
    """The step whose pipeline takes the median time, of its slowest replica: {"step", "replica",
    "measured": lanes, "predicted": lanes}, a lane for each device with its operations [kind,
    micro-batch, chunk, begin s, end s]; or {"reason": sentence}.
    """
    if name not in NAMES:
        raise UserError(f"there is no schedule {name[:40]!r}; it is one of {', '.join(NAMES)}")
    try:
        times = measured(answer.prepared, answer.memory)
    except NotAnswerable as error:
        return {"reason": str(error)}
    changes = asked.changes(times)
    ops, index_S = answer.prepared.ops, np.array(times.index_S)
    is_compute = np.isin(np.array(ops.optypes)[ops.type_O], (FORWARD_COMPUTE, BACKWARD_COMPUTE))
    start_OSD = ops.start_OSD[is_compute][:, index_S].astype(np.float64)
    end_OSD = start_OSD + ops.duration_OSD[is_compute][:, index_S]
    span_SD = end_OSD.max(axis=0) - start_OSD.min(axis=0)
    span_S = span_SD.max(axis=1)
    at = int(np.argsort(span_S)[len(span_S) // 2])
    replica = int(span_SD[at].argmax())
    try:
        made = replayed_cell(times, name, at, replica, changes)
    except ValueError as error:
        return {"reason": str(error)}
    begin_s = float(start_OSD[:, at, replica].min())
    lanes: list[list[list[Any]]] = [[] for _ in range(times.sizes[0])]
    for row, op in enumerate(np.flatnonzero(is_compute).tolist()):
        is_forward = ops.optypes[ops.type_O[op]] == FORWARD_COMPUTE
        begin, end = (own_OSD[row, at, replica] - begin_s for own_OSD in (start_OSD, end_OSD))
        lanes[ops.stage_O[op]].append(
            [
                FORWARD if is_forward else BACKWARD,
                int(ops.seq_O[op]),
                max(int(ops.chunk_O[op]), 0),
                round(float(begin), _DIGITS),
                round(float(end), _DIGITS),
            ]
        )
    predicted = [
        [
            [
                op.kind,
                op.microbatch,
                op.stage // times.sizes[0],
                round(float(made.start_s[op]), _DIGITS),
                round(float(made.end_s[op]), _DIGITS),
            ]
            for op in own
        ]
        for own in made.plan.orders
    ]
    number = int(ops.step_S[times.index_S[at]])
    return {"step": number, "replica": replica, "measured": lanes, "predicted": predicted}
