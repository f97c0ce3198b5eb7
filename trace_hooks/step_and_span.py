"""What `with tracer.step()` and `with tracer.span()` do."""

from __future__ import annotations

from trace_hooks.recording import guard
from trace_hooks.recording.recorder import Mark, Recorder
from trace_hooks.recording.step_counter import StepCounter


class OwnStep:
    """A step of the user's own; automatic steps keep out of the way from the first one on."""

    def __init__(self, steps: StepCounter, recorder: Recorder, number: int | None) -> None:
        self._steps, self._recorder, self._number = steps, recorder, number

    def __enter__(self) -> None:
        _begin_step(self._steps, self._number)

    def __exit__(self, *error: object) -> None:
        _end_step(self._steps)
        between = self._recorder.between_steps
        if between is not None and error[0] is None:
            between()


class OwnSpan:
    """A span of the user's own, on the track of the thread that it runs in."""

    def __init__(self, recorder: Recorder, name: str, kind: str) -> None:
        self._recorder, self._name, self._kind = recorder, name, kind
        self._opened: tuple[int, Mark] | None = None

    def __enter__(self) -> None:
        self._opened = _open_span(self._recorder, self._name, self._kind)

    def __exit__(self, *error: object) -> None:
        if self._opened is not None:
            _close_span(self._recorder, *self._opened)


@guard.guarded("tracer.step_begin", stays_on=True)
def _begin_step(steps: StepCounter, number: int | None) -> None:
    if steps.running and not steps.explicit:
        steps.forget()
    steps.explicit = True
    steps.begin(number)


@guard.guarded("tracer.step_end", stays_on=True)
def _end_step(steps: StepCounter) -> None:
    steps.end()


@guard.guarded("tracer.span_begin", stays_on=True)
def _open_span(recorder: Recorder, name: str, kind: str) -> tuple[int, Mark]:
    return recorder.site(str(name), kind), recorder.open()


@guard.guarded("tracer.span_end", stays_on=True)
def _close_span(recorder: Recorder, site: int, mark: Mark) -> None:
    recorder.close(site, mark, microbatch=recorder.microbatch)
