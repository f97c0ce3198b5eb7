"""Spans of Megatron's timers, of those that its log level switches on."""

from __future__ import annotations

from typing import Any

from trace_hooks.integrations.nested_spans import NestedSpans
from trace_hooks.recording.guard import guarded
from trace_hooks.recording.recorder import Recorder

LEFT_OUT = ("interval-time", "forward-backward", "forward-compute", "backward-compute")
"""Timers around what has spans of its own: they would only hide what no source has seen."""

KINDS = {
    "batch-generator": "data_fetch",
    "save-checkpoint": "checkpoint",
    "save-checkpoint-non-persistent": "checkpoint",
    "load-checkpoint": "checkpoint",
    "optimizer": "optimizer",
    "optimizer-inner-step": "optimizer",
    "optimizer-clip-main-grad": "optimizer",
    "optimizer-count-zeros": "optimizer",
    "optimizer-copy-to-main-grad": "optimizer",
    "optimizer-copy-main-to-model-params": "optimizer",
    "optimizer-unscale-and-check-inf": "optimizer",
}
"""Kind of a timer's spans; of others `host`."""


class TimerSpans:
    """Records timers from Timer.start to Timer.stop."""

    def __init__(self, recorder: Recorder) -> None:
        self._spans = NestedSpans(recorder, KINDS, LEFT_OUT)

    @guarded("megatron.timer_started")
    def started(self, _result: None, args: tuple[Any, ...], _kwargs: Any) -> None:
        """A timer has started."""
        self._spans.begin(args[0], args[0].name)

    @guarded("megatron.timer_stops")
    def stops(self, args: tuple[Any, ...], _kwargs: Any) -> None:
        """A timer stops."""
        self._spans.end(args[0])
