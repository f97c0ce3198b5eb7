"""Kernels and operators of a few steps, on demand: torch's profiler, begun by the dashboard.

The command `capture_kernels` names the first step, so that all ranks begin with the same; a rank
that has passed it refuses. Each rank turns what its profiler saw into spans (kinds host, kernel,
memcpy) on the drain thread, and hands them over a piece at a time: they come the way of all rows,
also where ranks and server share no disk, and have the clock of the other spans, which the
profiler's is tied to when a capture begins. The profiler's own trace is kept as well, in
kernels/ATTEMPT-rank-RANK-step-STEP.json.gz of the run folder.

Misses: Python functions, shapes; what comes after the job has begun to use torch's profiler itself,
of which there can be only one: a capture makes way.
Costs: without a capture, two checks a step. With one, what torch's profiler costs: the marks
`kernel_capture` tell it. It ends with the step in which it has lasted MAX_S or the process has
grown by MAX_GROWTH (profiled_steps.py); of its events the first MAX_EVENTS become spans.
"""

from __future__ import annotations

import functools
import gzip
import json
import logging
import shutil
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import profiler

from trace_hooks.protocol.capture_request import COMMAND, CaptureRequest, read_request
from trace_hooks.recording import guard
from trace_hooks.recording.clock import now, thread_cpu
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.patching import Patches
from trace_hooks.sources.profiling.profiled_rows import STEP, ProfiledSpan, spans_of
from trace_hooks.sources.profiling.profiled_steps import Capture, cost, numbers

if TYPE_CHECKING:
    from trace_hooks.job.identity import Identity

log = logging.getLogger("trace_hooks")

MAX_EVENTS = 200_000
PIECE = 2_000
"""Spans handed over at once: training's own rows find room beside them."""
MARK = "kernel_capture"


class KernelCapture(Source):
    """Captures by command, see the module's docstring."""

    name = "kernel_capture"
    poll_s = 0.2

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._asked: CaptureRequest | None = None
        self._running: Capture | None = None
        self._stopped: Capture | None = None  # its rows are yet to be handed over
        self._asking = threading.Lock()  # between the agent's thread and training's
        self._handing = threading.Lock()  # between the drain thread and the end of training
        self._annotation: Any = None
        self._cpu_ns = 0  # of training's thread when the step began
        self._before_ns = 0
        self._identity: Identity | None = None
        self._patches = Patches()

    def install(self) -> None:
        """Take the command."""
        self.context.live.commands.register(COMMAND, self.ask)

    def uninstall(self) -> None:
        """End what runs, and hand on what is there."""
        self._asked = None
        if self._running is not None:
            self._stop(self._running)
        with self._handing:
            self._hand_over(MAX_EVENTS + 1)

    def place(self, identity: Identity) -> None:
        """The rank's place in the run is known."""
        self._identity = identity

    @property
    def is_busy(self) -> bool:
        """Whether a capture is asked for, runs, or has rows yet to be handed over."""
        return any(one is not None for one in (self._asked, self._running, self._stopped))

    def ask(self, value: Any) -> str:
        """Begin a capture with a step to come (any thread); raises ValueError, one sentence."""
        request = read_request(value)
        if self._running is not None or self._stopped is not None:
            raise ValueError("this rank is still busy with the capture before; try again later")
        with self._asking:
            first = self.rank_state.step + 1 if request.first is None else request.first
            self._before_ns = 0
            self._asked = CaptureRequest(request.steps, first)
            step = self.rank_state.step  # read after: a step that begins now finds the request
            if step >= first:
                self._asked = None
                raise ValueError(f"this rank is in step {step} already; ask for a later one")
        return f"captures {request.steps} steps from step {first}, it is in step {step}"

    def step_begin(self) -> None:
        """Start the profiler where the time has come."""
        if self._running is None and self._asked is None:
            return
        self._cpu_ns = thread_cpu()
        if self._asked is not None:
            with self._asking:
                asked = self._asked
                if asked is None or asked.first is None or self.rank_state.step < asked.first:
                    return
                self._asked = None
            guard.attempt("kernel_capture.start", lambda: self._start(asked), switch_off=False)
        if self._running is not None:
            self._running.windows.add(self.rank_state.step, now())
            self._annotation = profiler.record_function(f"{STEP}{self.rank_state.step}")
            self._annotation.__enter__()

    def step_end(self) -> None:
        """Stop it after the last step."""
        running = self._running
        if running is None:
            if self._asked is not None and self._cpu_ns:
                self._before_ns = thread_cpu() - self._cpu_ns
            return
        self._leave_annotation()
        running.step_ns.append(thread_cpu() - self._cpu_ns)
        if running.is_complete:
            guard.attempt("kernel_capture.stop", lambda: self._stop(running), switch_off=False)

    def _start(self, asked: CaptureRequest) -> None:
        step = self.rank_state.step
        if step != asked.first:
            self._say(f"step {asked.first} did not come, this is step {step}: not captured")
            return
        if (
            torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
        ):  # to stop the profiler waits for the device
            self._say("a CUDA graph is being captured just now: not captured")
            return
        if torch.autograd._profiler_enabled():
            self._say("the job uses torch's profiler itself just now: not captured")
            return
        capture = Capture(asked, self._before_ns)
        begun_ns = thread_cpu()
        capture.profiler.__enter__()
        capture.own_ns = thread_cpu() - begun_ns
        self._running = capture
        self._patches.replace(profiler, "_prepare_profiler", self._making_way)
        self._cpu_ns = thread_cpu()  # starting is told by itself

    def _making_way(self, prepare: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(prepare)
        def prepared(*args: Any, **kwargs: Any) -> Any:
            self._make_way()
            return prepare(*args, **kwargs)

        return prepared

    @guard.guarded("kernel_capture.make_way")
    def _make_way(self) -> None:
        """The job begins to use torch's profiler itself: there can be only one, which is its."""
        running = self._running
        if running is not None and get_ident() == running.thread:
            self._say("the job uses torch's profiler itself from now on: the capture ends early")
            self._stop(running)

    def _stop(self, capture: Capture) -> None:
        self._running = None
        self._patches.restore()
        if get_ident() != capture.thread:
            self._say("steps end on another thread than they began on: the capture is lost")
            return
        self._leave_annotation()
        begun_ns = thread_cpu()
        capture.profiler.__exit__(None, None, None)
        capture.own_ns += thread_cpu() - begun_ns
        self._stopped = capture
        self._say(cost(capture), **numbers(capture))

    def _leave_annotation(self) -> None:
        annotation, self._annotation = self._annotation, None
        if annotation is not None:
            annotation.__exit__(None, None, None)

    def poll(self) -> None:
        """Hand rows of an ended capture over, a piece at a time (drain thread)."""
        if self._stopped is not None and self._handing.acquire(blocking=False):
            try:
                guard.attempt(
                    "kernel_capture.spans", lambda: self._hand_over(PIECE), switch_off=False
                )
            finally:
                self._handing.release()

    def _hand_over(self, most: int) -> None:
        capture = self._stopped
        if capture is None:
            return
        begun_ns = thread_cpu()
        try:
            if capture.spans is None:
                self._read(capture)
            assert capture.spans is not None
            piece = list(islice(capture.spans, most))
            for span in piece:
                self._add(capture, span)
        except Exception:
            self._stopped = None  # the next capture is not kept from beginning
            raise
        capture.drain_ns += thread_cpu() - begun_ns
        if len(piece) < most:
            self._stopped = None
            self._say(self._outcome(capture))

    def _read(self, capture: Capture) -> None:
        events = capture.profiler.kineto_results.events()
        capture.num_events = len(events)

        def name_of(native: int) -> str:
            if native == capture.native_thread:
                return self.recorder.thread_names.get(capture.thread, "main")
            return f"thread {native}"

        capture.spans = spans_of(events, MAX_EVENTS, name_of)
        if 0 < len(events) <= MAX_EVENTS:
            guard.attempt("kernel_capture.file", lambda: self._write(capture), switch_off=False)

    def _write(self, capture: Capture) -> None:
        """Keep the profiler's own trace."""
        path = self._path(capture)
        if path is None:
            return
        path.parent.mkdir(exist_ok=True)
        plain, part = path.with_suffix(""), path.with_suffix(".part")
        capture.profiler.export_chrome_trace(str(plain))  # which packs nothing by itself
        with plain.open("rb") as trace, gzip.open(part, "wb", compresslevel=1) as packed:
            shutil.copyfileobj(trace, packed, 1 << 20)
        plain.unlink()
        part.replace(path)

    def _path(self, capture: Capture) -> Path | None:
        if self._identity is None:
            return None
        place, attempt = self._identity.place, self._identity.shared.attempt
        first = capture.windows.numbers[0]
        name = f"{attempt:04d}-rank-{place.rank:05d}-step-{first:08d}.json.gz"
        return self._identity.folder / "kernels" / name

    def _add(self, capture: Capture, span: ProfiledSpan) -> None:
        recorder = self.recorder
        begin_ns = span.begin_ns - capture.anchor.offset_ns
        recorder.add_span(
            recorder.site(span.name[:200], span.kind, "imported"),
            begin_ns,
            span.end_ns - capture.anchor.offset_ns,
            step=capture.windows.at(begin_ns),
            thread=self.recorder.track(span.track),
            depth=span.depth,
        )
        capture.num_spans += 1

    def _outcome(self, capture: Capture) -> str:
        left_out = capture.num_events - MAX_EVENTS
        more = f"; {left_out} later events are left out" if left_out > 0 else ""
        return (
            f"{capture.num_spans} spans are on the timeline{more}; making them took "
            f"{capture.drain_ns / 1e6:.0f} ms of CPU time beside training"
        )

    def _say(self, text: str, **args: Any) -> None:
        log.info("trace_hooks: capture of kernels: %s", text)
        told = json.dumps(args) if args else None
        self.recorder.add_row("marks", ts_ns=now(), kind=MARK, text=text, args=told)
