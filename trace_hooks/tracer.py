"""What a user holds: steps, spans, numbers and marks of one training process."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_hooks import guard
from trace_hooks.clock import Anchor, HostClock, now
from trace_hooks.drain import Chore, Drain
from trace_hooks.exits import Exits
from trace_hooks.layout import ParallelLayout
from trace_hooks.recorder import Mark, Recorder
from trace_hooks.session import Session
from trace_hooks.settings import Settings, is_off, read_settings
from trace_hooks.sources import load_source
from trace_hooks.sources.base import Source
from trace_hooks.steps import StepCounter
from trace_hooks.watches import Ack
from trace_hooks.watching import Watching

if TYPE_CHECKING:
    from trace_hooks.agent import Agent

log = logging.getLogger("trace_hooks")

STOP_TIMEOUT_S = 10.0
"""How long the end of training waits for the last write at most."""


class Tracer:
    """Records one process; made by `trace_hooks.start`. No method raises into training."""

    def __init__(self, settings: Settings, model: Any = None, ordinal: int = 0) -> None:
        guard.account.reset()
        anchor = Anchor()
        self.recorder = Recorder()
        self.recorder.layout = settings.layout
        self.recorder.statistics_every = settings.statistics_every
        self.recorder.allow_content = settings.allow_content
        self.recorder.watches = settings.watches
        self.recorder.allow_perturbation = settings.allow_perturbation
        self.steps = StepCounter(self.recorder, self._step_begins, self._step_ends)
        self._pid = os.getpid()
        self._stopped = False
        self._drain = Drain(self.recorder, anchor)
        self._session = Session(settings, self.recorder, anchor, self._drain, model, ordinal)
        self._sources = self._load_sources(settings)
        self._drain.chores = [
            *self._session.chores(),
            Chore("tracer.steps", self.steps.publish),
            *(Chore(f"tracer.{s.name}.poll", s.poll, s.poll_s, False) for s in self._sources),
        ]
        self._anchor = anchor
        self._settings = settings
        self._watching: Watching | None = None
        self._agent: Agent | None = None
        self._exits = Exits(self.stop, self._drain.wakeup.fileno())
        self._drain.on_terminate = self._exits.terminate_from_drain

    @property
    def layout(self) -> ParallelLayout | None:
        """Layout of the job; None while it is unknown."""
        return self.recorder.layout

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are installed."""
        return tuple(self._sources)

    def step(self, n: int | None = None) -> AbstractContextManager[None]:
        """One optimizer step with all its micro-batches; None takes the next number."""
        return _Step(self, n)

    def span(self, name: str, kind: str = "host") -> AbstractContextManager[None]:
        """A span of the user's own; `kind` is one of schema.KINDS."""
        return _Span(self.recorder, name, kind)

    def watch(self, model: Any, stage: int | None = None) -> None:
        """Record a module's blocks; `stage` is its global (virtual) pipeline stage."""
        if self._active():
            for source in self._sources:
                hook = f"tracer.{source.name}.watch"
                guard.attempt(  # a wrong model must not switch the watch of the next one off
                    hook,
                    lambda s=source: s.watch(model, stage),  # type: ignore[misc]
                    switch_off=False,
                )

    def inspect(self, *watches: Mapping[str, Any]) -> list[Ack]:
        """Record content of the model from the next step on: these watches, in place of those of
        the call before; without any, none.

        Each is an object such as {"what": "attention", "layers": [3], "every": 10}, see
        trace_hooks/watches.py. Returns an answer for each; what is refused says why in one
        sentence, as anything is unless the job was started with allow_content.
        """
        if not self._active():
            return []
        found = guard.attempt("tracer.inspect", lambda: self._inspect(watches), switch_off=False)
        return found or []

    def perturb(self, value: Mapping[str, Any]) -> Ack:
        """Change weights or activations for some steps to come, or end that: {"end": its id}.

        `value` is an object such as {"kind": "gaussian", "target": "weights", "layer": 3,
        "strength": 0.01, "steps": [100, 104]}, see trace_hooks/perturbations.py. To be called on
        every rank alike. Returns an answer; what is refused says why in one sentence, as anything
        is unless the job was started with allow_perturbation.
        """
        found = None
        if self._active():
            found = guard.attempt("tracer.perturb", lambda: self._perturb(value), switch_off=False)
        return found or Ack("", False, "nothing can be perturbed in this process")

    def prompts(
        self,
        model: Any,
        *,
        encode: Callable[[str], Any] | None = None,
        decode: Callable[[list[int]], str] | None = None,
        forward: Callable[[Any], Any] | None = None,
        longest: int | None = None,
    ) -> None:
        """Let an operator prompt the model between two steps; to be called on every rank alike.

        `model`: an nn.Module that is called with ids (1, T) and returns logits (1, T, V), as a
        tensor or in `.logits`; or this rank's pipeline stages. `encode`, `decode`: a tokenizer's,
        text to ids and back; without them prompts are numbers. `forward`: called with the ids in
        place of the model, on all ranks at once; ranks that have no logits return None. `longest`:
        tokens that the model reads. Nothing happens unless the job allows content.
        """
        if self._active():
            guard.attempt(
                "tracer.prompts",
                lambda: self._prompts(model, encode, decode, forward, longest), switch_off=False,
            )  # fmt: skip

    def tokens(self, ids: Any = None, *, decode: Callable[[list[int]], str] | None = None) -> None:
        """What the tokens of a step are, for frames of it: only where the hooks cannot see it.

        `ids`: integers (sequences, tokens) of the running step. `decode`: a tokenizer's, from a
        list of ids to text; kept from then on. Nothing happens unless the job allows content.
        """
        if self._active() and self.recorder.allow_content:
            guard.attempt("tracer.tokens", lambda: self._tokens(ids, decode), switch_off=False)

    def log(self, **values: Any) -> None:
        """Numbers of the running (or just ended) step: loss, grad_norm, tokens, flops, lr.

        Tokens are those this rank processed, flops the model FLOPs of the step. A tensor on an
        accelerator is copied behind the work that makes it; nothing waits for the device.
        """
        _log(self, values)

    def mark(self, kind: str, text: str, **args: Any) -> None:
        """Something that happened now, in one sentence; `args` must be JSON."""
        _mark(self, kind, text, args)

    def stop(self, status: str = "finished", error: str | None = None) -> None:
        """Write what is left and take the hooks away; at exit this happens by itself."""
        if not self._stopped and self._active():
            self._stopped = True
            guard.attempt("tracer.stop", lambda: self._stop(status, error), switch_off=False)
            forget(self)

    def begin(self) -> None:
        """Install the sources, start the drain thread and meet the host's watchdog."""
        guard.attempt("tracer.watching", self._begin_watching, switch_off=False)
        guard.attempt("tracer.agent", self._begin_agent, switch_off=False)
        for source in self._sources:
            self._session.on_identity.append(source.place)
            guard.attempt(f"tracer.{source.name}.install", source.install)
        self._exits.install()
        self._drain.start()

    def abandon(self) -> None:
        """Become inert without writing: this is a forked child, the parent has the run."""
        self._stopped = True
        self._exits.forget()
        self.recorder.ring = None
        if self._agent is not None:
            self._agent.abandon()

    def uninstall_sources(self) -> None:
        """Take away every hook."""
        for source in reversed(self._sources):
            guard.attempt(f"tracer.{source.name}.uninstall", source.uninstall)

    def _inspect(self, watches: Sequence[Any]) -> list[Ack]:
        source: Any = next((one for one in self._sources if one.name == "inspection"), None)
        if source is None:
            return [Ack("", False, "the source inspection is off; nothing can be watched")]
        acks: list[Ack] = source.inspect(watches)
        return acks

    def _perturb(self, value: Any) -> Ack:
        source: Any = next((one for one in self._sources if one.name == "perturbing"), None)
        if source is None:
            return Ack("", False, "the source perturbing is off; nothing can be perturbed")
        ack: Ack = source.ask(value)
        return ack

    def _tokens(self, ids: Any, decode: Callable[[list[int]], str] | None) -> None:
        if decode is not None:
            self.recorder.token_texts.use(decode)
        source: Any = next((one for one in self._sources if one.name == "inspection"), None)
        if source is not None and ids is not None:
            source.tell_tokens(ids)

    def _prompts(self, model: Any, *how: Any) -> None:
        source: Any = next((one for one in self._sources if one.name == "prompting"), None)
        if source is not None and self.recorder.allow_content:
            from trace_hooks.sources.prompted_model import PromptedModel  # torch

            source.register(PromptedModel(model, *how))

    def _begin_watching(self) -> None:
        watching = Watching(self._settings, self.recorder, self._anchor)
        self._watching = watching
        self._session.on_identity.append(watching.place)
        self._drain.chores.append(Chore("watching.beat", watching.beat, 1.0))
        watching.start_watchdog()

    def _begin_agent(self) -> None:
        """Begin to be seen live, where the user has named a server."""
        if self._settings.server is None:
            return
        from trace_hooks.agent import Agent  # websockets: only for those who use it
        from trace_hooks.agent_watches import ServerWatches

        for source in self._sources:
            if source.name == "inspection":
                ServerWatches(self.recorder, source).join(self.recorder.live)  # type: ignore[arg-type]
        self._agent = Agent(self._settings.server, self.recorder, self._settings.ships)
        self._session.on_identity.append(self._agent.place)
        self.recorder.on_frame = self._agent.offer
        self._agent.start()

    def _active(self) -> bool:
        return self._pid == os.getpid()

    def _load_sources(self, settings: Settings) -> list[Source]:
        found = []
        for name in settings.sources:
            kind = guard.attempt(f"tracer.{name}.load", lambda n=name: load_source(n))  # type: ignore[misc]
            if kind is not None:
                source = guard.attempt(
                    f"tracer.{name}.load",
                    lambda k=kind: k(self.recorder, self.steps, settings.level),  # type: ignore[misc]
                )
                if source is not None:
                    source.name = source.name or name
                    found.append(source)
        return found

    def _choose_clock(self) -> None:
        """Take the accelerator's clock once the job uses one; waits for the device this once."""
        torch: Any = sys.modules.get("torch")
        if isinstance(self.recorder.device_clock, HostClock) and torch is not None:
            cuda = getattr(torch, "cuda", None)
            if cuda is not None and cuda.is_initialized():
                from trace_hooks.cuda_clock import CudaClock, CudaEvents

                track = f"cuda:{cuda.current_device()}"
                self.recorder.device_clock = CudaClock(CudaEvents(), track)

    def _step_begins(self) -> None:
        guard.attempt("tracer.clock", self._choose_clock)
        for source in self._sources:
            guard.attempt(f"tracer.{source.name}.step_begin", source.step_begin)

    def _step_ends(self) -> None:
        for source in self._sources:
            guard.attempt(f"tracer.{source.name}.step_end", source.step_end)

    def _stop(self, status: str, error: str | None) -> None:
        self._exits.ending = True
        if self.steps.running and self.steps.explicit:
            self.steps.end()
        self.recorder.phase = "ending"
        self.uninstall_sources()  # ends or forgets an automatic step
        self.steps.publish_last()
        self._session.close()
        self._drain.at_end = self._find_all
        self._drain.after_end = lambda: self._write_end(status, error)
        if not self._drain.stop(STOP_TIMEOUT_S):
            log.warning("the last rows could not be written within %s s", STOP_TIMEOUT_S)
        if self._agent is not None:
            self._agent.stop(status)
        self._exits.uninstall()
        if not self._exits.owns_wakeup_fd:  # a signal must not be written to a number used anew
            self._drain.close()

    def _find_all(self) -> None:
        self._session.find_identity(last_call=True)
        self._session.find_offset()

    def _write_end(self, status: str, error: str | None) -> None:
        self._session.end(status, error)
        self._session.write_files()
        if self._watching is not None:
            self._watching.end()


class NullTracer(Tracer):
    """The tracer of TRACE_HOOKS=0 and of processes that are no ranks: does nothing at all."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.steps = StepCounter(self.recorder, int, int)  # type: ignore[arg-type]
        self._sources = []
        self._stopped = True

    def step(self, n: int | None = None) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def span(self, name: str, kind: str = "host") -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def watch(self, model: Any, stage: int | None = None) -> None:
        """Nothing."""

    def inspect(self, *watches: Mapping[str, Any]) -> list[Ack]:
        """Nothing."""
        return []

    def perturb(self, value: Mapping[str, Any]) -> Ack:
        """Nothing."""
        return Ack("", False, "this process is not traced; nothing can be perturbed")

    def prompts(self, model: Any, **how: Any) -> None:
        """Nothing."""

    def tokens(self, ids: Any = None, **how: Any) -> None:
        """Nothing."""

    def log(self, **values: Any) -> None:
        """Nothing."""

    def mark(self, kind: str, text: str, **args: Any) -> None:
        """Nothing."""

    def stop(self, status: str = "finished", error: str | None = None) -> None:
        """Nothing."""


class _Step:
    def __init__(self, tracer: Tracer, number: int | None) -> None:
        self._tracer, self._number = tracer, number

    def __enter__(self) -> None:
        _begin_step(self._tracer, self._number)

    def __exit__(self, *error: object) -> None:
        _end_step(self._tracer)
        between = self._tracer.recorder.between_steps
        if between is not None and error[0] is None:
            between()


class _Span:
    def __init__(self, recorder: Recorder, name: str, kind: str) -> None:
        self._recorder, self._name, self._kind = recorder, name, kind
        self._opened: tuple[int, Mark] | None = None

    def __enter__(self) -> None:
        self._opened = _open_span(self._recorder, self._name, self._kind)

    def __exit__(self, *error: object) -> None:
        if self._opened is not None:
            _close_span(self._recorder, *self._opened)


@guard.guarded("tracer.step_begin", stays_on=True)
def _begin_step(tracer: Tracer, number: int | None) -> None:
    if tracer.steps.running and not tracer.steps.explicit:
        tracer.steps.forget()
    tracer.steps.explicit = True
    tracer.steps.begin(number)


@guard.guarded("tracer.step_end", stays_on=True)
def _end_step(tracer: Tracer) -> None:
    tracer.steps.end()


@guard.guarded("tracer.span_begin", stays_on=True)
def _open_span(recorder: Recorder, name: str, kind: str) -> tuple[int, Mark]:
    return recorder.site(str(name), kind), recorder.open()


@guard.guarded("tracer.span_end", stays_on=True)
def _close_span(recorder: Recorder, site: int, mark: Mark) -> None:
    recorder.close(site, mark, microbatch=recorder.microbatch)


@guard.guarded("tracer.log", stays_on=True)
def _log(tracer: Tracer, values: dict[str, Any]) -> None:
    tracer.steps.log(values)


@guard.guarded("tracer.mark", stays_on=True)
def _mark(tracer: Tracer, kind: str, text: str, args: dict[str, Any]) -> None:
    extra = json.dumps(args) if args else None
    tracer.recorder.add_row("marks", ts_ns=now(), kind=str(kind), text=str(text), args=extra)


_current: Tracer | None = None
_inherited: Tracer | None = None  # of the parent process, in a forked child
_starts = 0


def start(
    folder: str | Path | None = None,
    *,
    run: str | None = None,
    model: Any = None,
    layout: ParallelLayout | Mapping[str, int] | str | Any | None = None,
    level: str | None = None,
    sources: Sequence[str] | None = None,
    statistics: int | None = None,
    allow_content: bool | None = None,
    allow_perturbation: bool | None = None,
) -> Tracer:
    """See trace_hooks.start."""
    global _current, _starts
    if is_off(os.environ) or _is_importing_main():
        return NullTracer()
    if _current is not None:
        return _current
    settings = read_settings(
        os.environ, folder=folder, run=run, layout=layout, level=level, sources=sources,
        statistics=statistics, allow_content=allow_content, allow_perturbation=allow_perturbation,
    )  # fmt: skip
    tracer = guard.attempt("tracer.start", lambda: _started(settings, model), switch_off=False)
    if tracer is None:
        return NullTracer()
    _current = tracer
    return tracer


def _started(settings: Settings, model: Any) -> Tracer:
    global _starts
    if _inherited is not None:
        _inherited.uninstall_sources()
    tracer = Tracer(settings, model, ordinal=_starts)
    _starts += 1
    tracer.begin()
    if hasattr(model, "named_modules"):
        tracer.watch(model)
    return tracer


def forget(tracer: Tracer) -> None:
    """A tracer has stopped: the next `start` makes a new one."""
    global _current
    if _current is tracer:
        _current = None


def _is_importing_main() -> bool:
    """Whether a spawned worker is importing the user's script: that is not the script running."""
    return bool(getattr(multiprocessing.current_process(), "_inheriting", False))


def _after_fork() -> None:
    """In a forked child: no thread, no files, no hooks; a `start` of its own begins anew."""
    global _current, _inherited
    if _current is not None:
        _inherited, _current = _current, None
        guard.switch_all_off()
        _inherited.abandon()


os.register_at_fork(after_in_child=_after_fork)
