"""Spans of Megatron's timers, of those that its log level switches on."""

from __future__ import annotations

from typing import Any

from trace_hooks.recording.guard import guarded
from trace_hooks.recording.recorder import Mark, Recorder

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
    """Timers that run, outermost first. One that stops while a later one runs ends that as well:
    spans lie inside each other."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._running: list[tuple[Any, Mark]] = []

    @guarded("megatron.timer_started")
    def started(self, _result: None, args: tuple[Any, ...], _kwargs: Any) -> None:
        """A timer has started."""
        (timer, *_) = args
        if timer.name not in LEFT_OUT:
            self._running.append((timer, self._recorder.open()))

    @guarded("megatron.timer_stops")
    def stops(self, args: tuple[Any, ...], _kwargs: Any) -> None:
        """A timer stops."""
        (timer, *_) = args
        if all(timer is not running for running, _ in self._running):
            return
        while self._running:
            running, mark = self._running.pop()
            if running is timer:
                kind = KINDS.get(timer.name, "host")
                self._recorder.close(self._recorder.site(timer.name, kind), mark)
                return
