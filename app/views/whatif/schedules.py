"""What the pipeline of a run would take under other schedules, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from app.views.whatif.analysis import Answer
from diagnosis.whatif.operations import NotAnswerable
from diagnosis.whatif.schedules.measured import measured
from diagnosis.whatif.schedules.predict import NAMES, predict


def schedules_of(answer: Answer, go_on: Callable[[], object]) -> dict[str, Any]:
    """{"schedules": predictions as of `rankscope whatif --schedule all --json`, in a list}, or
    {"reason": sentence} for a job without a pipeline. `go_on` is called between them.
    """
    try:
        times = measured(answer.prepared)
    except NotAnswerable as error:
        return {"reason": str(error)}
    found = []
    for name in NAMES:
        go_on()
        found.append(asdict(predict(times, name)))
    return {"schedules": found}
