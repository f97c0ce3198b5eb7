"""Hugging Face Accelerate: a tracker for scripts with a training loop of their own.

>>> import trace_hooks as th
>>> accelerator = Accelerator(log_with=th.accelerate.Tracker())          # doctest: +SKIP
>>> accelerator.init_trackers("project")                                 # doctest: +SKIP
>>> accelerator.log({"loss": loss, "lr": lr}, step=step)                 # doctest: +SKIP

What `accelerator.log` is given under the names below is attached to the step that has just ended.
Steps are counted by the hooks: one for each step of the optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelerate.tracking import GeneralTracker

from trace_hooks import Tracer
from trace_hooks.integrations import OwnTracer
from trace_hooks.recording.guard import guarded


class Tracker(GeneralTracker):
    """Traces a script that uses Accelerate; starts the hooks unless they run already.

    `loss`, `grad_norm`, `lr`: names under which the script logs the numbers of a step; what it logs
    of a whole epoch is none. `first_step`: number of the first step, for a job that resumes.
    `chosen`: arguments of trace_hooks.start. Raises ValueError as that does.
    """

    name = "rankscope"
    requires_logging_directory = False
    main_process_only = False

    def __init__(
        self,
        folder: str | None = None,
        *,
        loss: str = "loss",
        grad_norm: str = "grad_norm",
        lr: str = "lr",
        first_step: int | None = None,
        **chosen: Any,
    ) -> None:
        super().__init__()
        self._own = OwnTracer({"folder": folder, **chosen})
        self._names = {"loss": loss, "grad_norm": grad_norm, "lr": lr}
        tracer = self._own()
        if first_step is not None:
            tracer.renumber(first_step)

    @property
    def tracker(self) -> Tracer:
        """The tracer that is running: in a spawned or forked rank, one of its own."""
        return self._own()

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Nothing: hyperparameters are not recorded."""

    def log(self, values: dict[str, Any], step: int | None = None, **more: Any) -> None:
        """Attach the numbers that are known by name to the step that has just ended."""
        _log(self.tracker, self._names, values)


@guarded("accelerate.log", stays_on=True)
def _log(tracer: Tracer, names: Mapping[str, str], values: Mapping[str, Any]) -> None:
    tracer.log(**{ours: values[theirs] for ours, theirs in names.items() if theirs in values})
