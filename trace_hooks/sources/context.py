"""What a source is given: where to record, what the user allowed, and whom it may talk to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from trace_hooks.protocol.watches import Watch
from trace_hooks.recording.commands import Live
from trace_hooks.recording.rank_state import RankState
from trace_hooks.recording.recorder import Mark, Recorder
from trace_hooks.recording.step_sampling import StepSampling
from trace_hooks.sources.alive import Roots


class Steps(Protocol):
    """How a source that recognises steps by itself reports them (unmodified scripts)."""

    explicit: bool
    """The user's own `with tracer.step(n)` is in charge; automatic steps keep out of the way."""

    between: Callable[[], object] | None
    """Called on the training thread once a step of the user's own has ended; None: nothing is."""

    def begin(self, number: int | None = None, at_ns: int | None = None) -> None:
        """A step begins (at a `clock.now()` reading, default now); None takes the next number."""

    def end(self, at_ns: int | None = None) -> None:
        """The running step ends."""

    def extend(self, at_ns: int) -> None:
        """The step that has just ended goes on until then."""

    def renumber(self, number: int) -> None:
        """The running automatic step, else the next one, has this number."""

    def hold(self) -> None:
        """Numbers of the step that has just ended will be logged later than usual."""

    def log(self, values: dict[str, Any]) -> None:
        """Attach numbers to the running step, else to the one that has just ended."""

    def suggest(self, values: dict[str, Any]) -> None:
        """Attach numbers in the same way, unless the job logs them itself."""

    def step_back(self) -> None:
        """What follows lies between the running step and the one before, and has its number."""

    def go_on(self) -> None:
        """What follows is part of the running step."""

    def forget(self) -> None:
        """Drop the running step: it was not one."""

    def postpone(self, at_ns: int) -> None:
        """The running step, if any, begins then."""

    def count_tokens(self, tokens: int) -> None:
        """Tokens of a batch of the running step, for a job that logs none."""


@dataclass(frozen=True)
class SourceOptions:
    """What the user chose for the sources."""

    level: str = "layers"  # one of source_names.LEVELS
    statistics_every: int = 0  # steps from one with tensor statistics to the next; 0 never
    allow_content: bool = False  # values of tensors may be recorded
    watches: tuple[Watch, ...] = ()  # content to capture from the start of the job
    allow_perturbation: bool = False  # the model may be changed while it trains


class TracedModels:
    """The models that the source `modules` has hooked, and which source follows their forwards."""

    def __init__(self) -> None:
        self.roots = Roots()
        self.on_output: Callable[[Any, int, Any], None] | None = None
        """Called with every (part, chunk, output) of a forward with gradients; None: no source
        follows them."""
        self.on_content: Callable[[Any, int | None, Any, Any], None] | None = None
        """Called with every (part, stage of its model, output, arguments) in the same way."""
        self.on_compiled: Callable[[Any], None] | None = None
        """Called with a module of theirs that is being compiled, whose inner hooks are removed."""
        self.on_gradients: Callable[[int], None] | None = None
        """To be called with a backward pass (its graph task) whose gradients are all computed,
        where something else follows in it."""
        self.running_part: Callable[[], tuple[Any, int | None, Mark] | None] | None = None
        """Innermost (part, stage of its model, its mark) that runs on the calling thread."""


@dataclass(frozen=True, eq=False)
class SourceContext:
    """Everything that a source may use."""

    recorder: Recorder
    steps: Steps
    options: SourceOptions = SourceOptions()
    models: TracedModels = field(default_factory=TracedModels)
    live: Live = field(default_factory=Live)
    sampling: StepSampling = field(default_factory=StepSampling)

    @property
    def rank_state(self) -> RankState:
        """What this rank is doing now."""
        return self.recorder.rank_state
