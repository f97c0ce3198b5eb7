"""Kernels and operators of a few steps, on request of the dashboard, by torch's profiler.

The command `capture_kernels` names the first step, so that all ranks begin with the same one; a
rank that has passed it refuses. On the drain thread each rank turns its profiler's events into
spans (kinds host, kernel, memcpy) and records them a piece at a time. They are rows like all
others, so they also reach a server without a shared disk, and have the clock of the other spans, to
which the profiler's clock is tied when a capture begins. The profiler's own trace is kept as well,
in kernels/ATTEMPT-rank-RANK-step-STEP.json.gz of the run folder.

Misses: Python functions, shapes. Only one profiler of torch can run: a capture ends when the job
begins to use it.
Costs: without a capture, two checks a step. With one, the cost of torch's profiler, which the marks
`kernel_capture` state. It ends with the step in which it has lasted MAX_S or the process has
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
"""Spans recorded at once, so that the rows of training find room among them."""
MARK = "kernel_capture"


class KernelCapture(Source):
    """Captures on request, see the module's docstring."""

    name = "kernel_capture"
    poll_s = 0.2

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._request: CaptureRequest | None = None
        self._running: Capture | None = None
        self._stopped: Capture | None = None  # its spans are not all recorded yet
        self._request_lock = threading.Lock()  # between the agent's thread and training's
        self._annotation: Any = None
        self._cpu_ns = 0  # of training's thread when the step began
        self._before_ns = 0
        self._identity: Identity | None = None
        self._patches = Patches()

    def install(self) -> None:
        """Register the command."""
        self.context.live.commands.register(COMMAND, self.ask)

    def uninstall(self) -> None:
        """End a running capture."""
        self._request = None
        if self._running is not None:
            self._stop(self._running)

    def finish(self) -> None:
        """Record the spans of the last capture, and write its file: the disk may hang."""
        self._hand_over(MAX_EVENTS + 1)

    def place(self, identity: Identity) -> None:
        """Keep the identity, for the path of the trace file."""
        self._identity = identity

    @property
    def is_busy(self) -> bool:
        """Whether a capture is requested, runs, or has spans that are not recorded yet."""
        return any(capture is not None for capture in (self._request, self._running, self._stopped))

    def ask(self, value: Any) -> str:
        """Begin a capture with a later step (any thread); raises ValueError, one sentence."""
        request = read_request(value)
        if self._running is not None or self._stopped is not None:
            raise ValueError("this rank is still busy with the capture before; try again later")
        with self._request_lock:
            first = self.rank_state.step + 1 if request.first is None else request.first
            self._before_ns = 0
            self._request = CaptureRequest(request.steps, first)
            step = self.rank_state.step  # read after: a step that begins now finds the request
            if step >= first:
                self._request = None
                raise ValueError(f"this rank is in step {step} already; ask for a later one")
        self.context.sampling.ask(first, first + request.steps - 1)
        return f"captures {request.steps} steps from step {first}, it is in step {step}"

    def step_begin(self) -> None:
        """Start the profiler at the first requested step."""
        if self._running is None and self._request is None:
            return
        self._cpu_ns = thread_cpu()
        if self._request is not None:
            with self._request_lock:
                request = self._request
                if request is None or request.first is None or self.rank_state.step < request.first:
                    return
                self._request = None
            guard.attempt("kernel_capture.start", lambda: self._start(request), switch_off=False)
        if self._running is not None:
            self._running.windows.add(self.rank_state.step, now())
            self._annotation = profiler.record_function(f"{STEP}{self.rank_state.step}")
            self._annotation.__enter__()

    def step_end(self) -> None:
        """Stop the profiler after the last step."""
        running = self._running
        if running is None:
            if self._request is not None and self._cpu_ns:
                self._before_ns = thread_cpu() - self._cpu_ns
            return
        self._leave_annotation()
        running.step_ns.append(thread_cpu() - self._cpu_ns)
        if running.is_complete:
            guard.attempt("kernel_capture.stop", lambda: self._stop(running), switch_off=False)

    def _start(self, request: CaptureRequest) -> None:
        step = self.rank_state.step
        if step != request.first:
            self._say(f"step {request.first} did not come, this is step {step}: not captured")
            return
        if (
            torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
        ):  # stopping the profiler waits for the device
            self._say("a CUDA graph is being captured just now: not captured")
            return
        if torch.autograd._profiler_enabled():
            self._say("the job uses torch's profiler itself just now: not captured")
            return
        capture = Capture(request, self._before_ns)
        begun_ns = thread_cpu()
        capture.profiler.__enter__()
        capture.own_ns = thread_cpu() - begun_ns
        self._running = capture
        self._patches.replace(profiler, "_prepare_profiler", self._making_way)
        self._cpu_ns = thread_cpu()  # the cost of starting is reported separately

    def _making_way(self, prepare: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(prepare)
        def prepared(*args: Any, **kwargs: Any) -> Any:
            self._make_way()
            return prepare(*args, **kwargs)

        return prepared

    @guard.guarded("kernel_capture.make_way")
    def _make_way(self) -> None:
        """End the capture: the job begins to use torch's profiler, of which only one can run."""
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
        """Record spans of an ended capture, a piece at a time (drain thread)."""
        if self._stopped is not None:
            guard.attempt("kernel_capture.spans", lambda: self._hand_over(PIECE), switch_off=False)

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
            self._stopped = None  # do not block the next capture
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
        capture.profiler.export_chrome_trace(str(plain))  # writes it uncompressed
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
            f"{capture.drain_ns / 1e6:.0f} ms of CPU time of the drain thread"
        )

    def _say(self, text: str, **args: Any) -> None:
        log.info("trace_hooks: capture of kernels: %s", text)
        json_args = json.dumps(args) if args else None
        self.recorder.add_row("marks", ts_ns=now(), kind=MARK, text=text, args=json_args)
