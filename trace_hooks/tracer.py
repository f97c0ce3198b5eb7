"""What a user holds: steps, spans, numbers and marks of one training process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Any

from trace_hooks.layout import ParallelLayout
from trace_hooks.protocol.watches import Ack
from trace_hooks.recording import guard
from trace_hooks.recording.clock import now
from trace_hooks.recording.recorder import Mark, Recorder
from trace_hooks.recording.step_counter import StepCounter
from trace_hooks.settings import Settings
from trace_hooks.sources.base import Source
from trace_hooks.tracer_parts import Recording

EVALUATION = "evaluation"
"""Kind of the span in which the job evaluates its model: that is no part of a step."""


class Tracer:
    """Records one process; made by `trace_hooks.start`. No method raises into training."""

    def __init__(
        self, settings: Settings, model: Any, ordinal: int, on_stop: Callable[[Tracer], None]
    ) -> None:
        self._pid = os.getpid()
        self._stopped = False
        self._on_stop = on_stop
        self._recording = Recording(settings, model, ordinal, self.stop)
        self.context = self._recording.context
        self.recorder = self.context.recorder
        self.steps = self._recording.steps
        self._sources = self._recording.sources

    @property
    def layout(self) -> ParallelLayout | None:
        """Layout of the job; None while it is unknown."""
        return self.context.rank_state.layout

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are installed."""
        return tuple(self._sources.all)

    def step(self, n: int | None = None) -> AbstractContextManager[None]:
        """One optimizer step with all its micro-batches; None takes the next number."""
        return OwnStep(self.steps, n)

    def renumber(self, n: int) -> None:
        """The running step has this number, or the next one if none is running: a job resumes.

        For steps that the hooks recognise by themselves; those of `step` keep their numbers. A
        number that is less than that of an earlier step changes nothing.
        """
        _renumber(self.steps, n)

    def span(self, name: str, kind: str = "host") -> AbstractContextManager[None]:
        """A span around the user's own code; `kind` is one of schema.KINDS."""
        return OwnSpan(self.recorder, name, kind)

    def watch(self, model: Any, stage: int | None = None) -> None:
        """Record a module's blocks; `stage` is its global (virtual) pipeline stage."""
        if self._active():
            self._sources.instrument(model, stage)

    def install(self, source: Source) -> None:
        """Install one more source, such as a framework's, until the tracer stops."""
        if self._active():
            self._sources.add(source)

    def inspect(self, *watches: Mapping[str, Any]) -> list[Ack]:
        """Capture content of the model from the next step on, as these watches say.

        They replace those of the previous call; without any, the capture ends. Each is an object
        such as {"what": "attention", "layers": [3], "every": 10}, see
        trace_hooks/protocol/watches.py. Returns an answer for each; a refusal says why in one
        sentence. A job that was started without allow_content refuses all of them.
        """
        if not self._active():
            return []
        acks = guard.attempt("tracer.inspect", lambda: self._inspect(watches), switch_off=False)
        return acks or []

    def perturb(self, value: Mapping[str, Any]) -> Ack:
        """Change weights or activations for some later steps, or end such a change: {"end": its
        id}.

        `value` is an object such as {"kind": "gaussian", "target": "weights", "layer": 3,
        "strength": 0.01, "steps": [100, 104]}, see trace_hooks/protocol/perturbations.py. Call it
        with the same value on every rank. Returns an answer; a refusal says why in one sentence. A
        job that was started without allow_perturbation refuses everything.
        """
        ack = None
        if self._active():
            ack = guard.attempt("tracer.perturb", lambda: self._perturb(value), switch_off=False)
        return ack or Ack("", False, "nothing can be perturbed in this process")

    def prompts(
        self,
        model: Any,
        *,
        encode: Callable[[str], Any] | None = None,
        decode: Callable[[list[int]], str] | None = None,
        forward: Callable[[Any], Any] | None = None,
        longest: int | None = None,
    ) -> None:
        """Let an operator prompt the model between two steps; call it on every rank.

        `model`: an nn.Module that is called with ids (1, T) and returns logits (1, T, V), as a
        tensor or in `.logits`; or this rank's pipeline stages. `encode`, `decode`: a tokenizer's,
        text to ids and back; without them prompts are numbers. `forward`: called with the ids
        instead of the model, on all ranks at once; ranks that have no logits return None.
        `longest`: greatest number of tokens that the model reads. Does nothing unless the job
        allows content.
        """
        if self._active():
            guard.attempt(
                "tracer.prompts",
                lambda: self._prompts(model, encode, decode, forward, longest),
                switch_off=False,
            )

    def tokens(self, ids: Any = None, *, decode: Callable[[list[int]], str] | None = None) -> None:
        """Say which tokens a step reads, to label its frames; needed only where the hooks cannot
        see.

        `ids`: integers (sequences, tokens) of the running step. `decode`: a tokenizer's, from a
        list of ids to text; kept from then on. Does nothing unless the job allows content.
        """
        if self._active() and self.context.options.allow_content:
            guard.attempt("tracer.tokens", lambda: self._tokens(ids, decode), switch_off=False)

    def log(self, **values: Any) -> None:
        """Record numbers of the running (or just ended) step: loss, grad_norm, tokens, flops, lr.

        Tokens are those of this rank's data-parallel replica, flops the model FLOPs of the whole
        step over all ranks. A tensor on an accelerator is copied after the work that makes it;
        nothing waits for the device.
        """
        _log(self.steps, values)

    def batch(
        self,
        *,
        lengths: Any = None,
        source: str | Sequence[str] | Mapping[str, int] | None = None,
        planned: Mapping[str, float] | None = None,
    ) -> None:
        """Describe the batch that the running step has just been given.

        `lengths`: tokens of each of its sequences, on the host; or a list of them for each
        micro-batch, in the order in which they run. `source`: the source that all of
        them are from, or the source of each, or how many are of which. `planned`: weights of the
        sources in the mixture that the job means to draw; they need not add up to 1.
        """
        if self._active():
            guard.attempt(
                "tracer.batch",
                lambda: self._describe(lengths, source, planned),
                switch_off=False,
            )

    def standby(self, *, lag_samples: int = -1, snapshot_age_s: float | None = None) -> None:
        """State how far this rank's standby data loader is behind the one it would replace.

        `lag_samples`: samples that it would read again or leave out; `snapshot_age_s`: age of the
        newest snapshot of the loader's state.
        """
        if self._active():
            guard.attempt(
                "tracer.standby",
                lambda: self._standby(lag_samples, snapshot_age_s),
                switch_off=False,
            )

    def router(
        self,
        module: Any,
        num_experts: int,
        *,
        chosen: int | str | Callable[[Any], Any] | None = None,
        top_k: int | None = None,
        local: range | None = None,
        bias: str | Callable[[], Any] | None = None,
        aux_loss: int | str | Callable[[Any], Any] | None = None,
    ) -> None:
        """Record what a router of the user's own chooses among `num_experts` experts.

        `chosen`: its choices, by a position, a key or an attribute of what `module` returns, or a
        function of that (default: its first tensor of integers or bools). They are one of:
        integers (..., K), the experts of each token, negative where a choice was dropped, or (...)
        with `top_k` 1; bool (..., E), whether a token goes to an expert; integers (E), tokens by
        expert; floating point (..., E), scores of which the `top_k` greatest are chosen. `top_k`:
        experts of a token, where that does not show. `local`: experts on this rank, such as
        range(4, 8). `bias`: what is added to the scores, (E), as the name of an attribute of
        `module` or a function. `aux_loss`: its load-balancing loss, (), like `chosen`. Routers of
        Megatron-core, torchtitan and Hugging Face transformers need no call.
        """
        if self._active():
            how = (chosen, top_k, local, bias, aux_loss)
            guard.attempt(
                "tracer.router", lambda: self._router(module, num_experts, *how), switch_off=False
            )

    def mark(self, kind: str, text: str, **args: Any) -> None:
        """Record that something happened now, in one sentence; `args` must be JSON."""
        _mark(self.recorder, kind, text, args)

    def stop(self, status: str = "finished", error: str | None = None) -> None:
        """Write what is left and remove the hooks; this also happens at exit."""
        if not self._stopped and self._active():
            self._stopped = True
            guard.attempt(
                "tracer.stop", lambda: self._recording.end(status, error), switch_off=False
            )
            self._on_stop(self)

    def _describe(self, lengths: Any, source: Any, planned: Any) -> None:
        from trace_hooks.sources.training.described_batch import described

        data = self._sources.named("data")
        if data is not None:
            data.describe(described(lengths, source, planned))

    def _router(self, module: Any, num_experts: int, *how: Any) -> None:
        source = self._sources.named("experts")
        if source is not None:
            from trace_hooks.sources.experts.routers import own_router  # torch

            source.add(own_router(module, num_experts, *how))

    def _standby(self, lag_samples: int, snapshot_age_s: float | None) -> None:
        age_s = None if snapshot_age_s is None else float(snapshot_age_s)
        if self._sources.named("data") is not None:
            self.recorder.add_row(
                "loader_standby", ts_ns=now(), lag_samples=int(lag_samples), snapshot_age_s=age_s
            )

    def begin(self) -> None:
        """Install the sources, start the drain thread and meet the host's watchdog."""
        self._recording.begin()

    def abandon(self) -> None:
        """Become inert without writing: this is a forked child, the parent has the run."""
        self._stopped = True
        self._recording.abandon()

    def uninstall_sources(self) -> None:
        """Remove every hook."""
        self._sources.uninstall()

    def _active(self) -> bool:
        return self._pid == os.getpid()

    def _inspect(self, watches: Sequence[Any]) -> list[Ack]:
        source = self._sources.named("inspection")
        if source is None:
            return [Ack("", False, "the source inspection is off; nothing can be captured")]
        acks: list[Ack] = source.inspect(watches)
        return acks

    def _perturb(self, value: Any) -> Ack:
        source = self._sources.named("perturbing")
        if source is None:
            return Ack("", False, "the source perturbing is off; nothing can be perturbed")
        ack: Ack = source.ask(value)
        return ack

    def _tokens(self, ids: Any, decode: Callable[[list[int]], str] | None) -> None:
        source = self._sources.named("inspection")
        if source is None:
            return
        if decode is not None:
            source.token_names.use(decode)
        if ids is not None:
            source.take_tokens(ids)

    def _prompts(self, model: Any, *how: Any) -> None:
        source = self._sources.named("prompting")
        if source is not None and self.context.options.allow_content:
            from trace_hooks.sources.prompting.prompted_model import PromptedModel  # torch

            source.register(PromptedModel(model, *how))


class OwnStep:
    """A step that the user marks; from the first one on, automatic steps are off."""

    def __init__(self, steps: StepCounter, number: int | None) -> None:
        self._steps, self._number = steps, number

    def __enter__(self) -> None:
        _begin_step(self._steps, self._number)

    def __exit__(self, *error: object) -> None:
        _end_step(self._steps)
        between = self._steps.between
        if between is not None and error[0] is None:
            between()


class OwnSpan:
    """A span that the user marks, on the track of the thread that it runs in; the user may keep it,
    and enter it again while it is open.
    """

    def __init__(self, recorder: Recorder, name: str, kind: str) -> None:
        self._recorder, self._name, self._kind = recorder, name, kind
        self._opened: list[tuple[int, Mark] | None] = []

    def __enter__(self) -> None:
        self._opened.append(_open_span(self._recorder, self._name, self._kind))

    def __exit__(self, *error: object) -> None:
        opened = self._opened.pop() if self._opened else None
        if opened is not None:
            _close_span(self._recorder, *opened, self._kind)


@guard.guarded("tracer.step_begin", stays_on=True)
def _begin_step(steps: StepCounter, number: int | None) -> None:
    if steps.running and not steps.explicit:
        steps.forget()
    steps.explicit = True
    steps.begin(number)


@guard.guarded("tracer.step_end", stays_on=True)
def _end_step(steps: StepCounter) -> None:
    steps.end()


@guard.guarded("tracer.renumber", stays_on=True)
def _renumber(steps: StepCounter, number: int) -> None:
    steps.renumber(number)


@guard.guarded("tracer.span_begin", stays_on=True)
def _open_span(recorder: Recorder, name: str, kind: str) -> tuple[int, Mark]:
    site, mark = recorder.site(str(name), kind), recorder.open()
    state = recorder.rank_state
    if kind == EVALUATION and not state.evaluating_thread:
        state.evaluating_thread, state.outermost_evaluation = get_ident(), mark
    return site, mark


@guard.guarded("tracer.span_end", stays_on=True)
def _close_span(recorder: Recorder, site: int, mark: Mark, kind: str) -> None:
    state = recorder.rank_state
    recorder.close(site, mark, microbatch=state.microbatch)
    if mark is state.outermost_evaluation:
        state.evaluating_thread, state.outermost_evaluation = 0, None
        state.evaluated_ns = now()


@guard.guarded("tracer.log", stays_on=True)
def _log(steps: StepCounter, values: dict[str, Any]) -> None:
    steps.log(values)


@guard.guarded("tracer.mark", stays_on=True)
def _mark(recorder: Recorder, kind: str, text: str, args: dict[str, Any]) -> None:
    extra = json.dumps(args) if args else None
    recorder.add_row("marks", ts_ns=now(), kind=str(kind), text=str(text), args=extra)
