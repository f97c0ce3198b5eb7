"""Captures between the training thread and the table `frames` and the dashboard."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import fields

from trace_hooks.protocol.frames import Frame
from trace_hooks.recording.clock import thread_cpu
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.inspection.captures import ActiveWatch, Capture
from trace_hooks.sources.inspection.host_buffers import HostBuffers
from trace_hooks.sources.inspection.token_names import TokenNames
from trace_hooks.sources.training.module_parts import Part

MAX_WAITING_BYTES = 256 << 20
"""Bytes of captures that the drain thread has not taken, and of frames that cannot be written
yet."""

LAST_COPY_S = 0.5
"""The end of training waits this long for the last copy."""

_COLUMNS = tuple(
    field.name for field in fields(Frame) if field.name not in ("attempt", "rank", "ts_ns")
)


class FrameQueue:
    """Captures of one rank; `keep`, `forget` and `release` are for the training thread."""

    def __init__(self, context: SourceContext, token_names: TokenNames) -> None:
        self._recorder = context.recorder
        self._rank_state = context.rank_state
        self._live = context.live
        self._token_names = token_names
        self._buffers = HostBuffers()
        self._held: list[Capture] = []  # until the end of the step, see keep
        self._captures: deque[Capture] = deque()
        self._unwritten: deque[tuple[int, Frame]] = deque()  # (its monotonic ns, it)
        self._to_write: Counter[ActiveWatch] = Counter()  # bytes since frames were last written
        self._written_ns = 0  # RankState.frames_ns as far as it is charged

    def keep(
        self,
        active: ActiveWatch,
        part: Part | None,
        stage: int | None,
        made: Iterator[Capture],
        counted: bool = True,
    ) -> None:
        """Make captures, charge their cost, queue them. `counted`: among the frames of the watch.

        Those of a stage outside of any micro-batch wait for the end of the step: they may come from
        the made-up numbers with which torch's pipelining finds shapes.
        """
        state = self._rank_state
        begun_ns = thread_cpu()
        is_full = sum(capture.values.nbytes for capture in list(self._captures)) > MAX_WAITING_BYTES
        captures, num_frames = [], 0
        for capture in made:
            num_frames += len(capture.each)
            if not is_full:
                capture.to_host(self._buffers)
                captures.append(capture)
        self._recorder.dropped += num_frames if is_full else 0
        cost_ns = thread_cpu() - begun_ns
        active.cost_ns += cost_ns
        for capture in captures:
            capture.part, capture.active, capture.is_counted = id(part), active, counted
            capture.common |= {"step": state.step, "cost_ns": cost_ns // num_frames}
        if part is not None and stage is not None and state.microbatch < 0:
            self._held += captures
        else:
            self._captures.extend(captures)

    def forget(self, part: Part) -> None:
        """Drop the held captures of a part: they came from made-up numbers."""
        kept = []
        for capture in self._held:
            if capture.part != id(part):
                kept.append(capture)
            elif capture.active is not None and capture.is_counted:
                capture.active.forget(len(capture.each))
        self._held = kept

    def release(self) -> None:
        """Queue the held captures: none of them will be dropped."""
        if self._held:
            self._captures.extend(self._held)
            self._held = []

    def forget_sizes(self) -> None:
        """Free the buffers: new watches have frames of other sizes."""
        self._buffers.clear()

    def deliver(self) -> None:
        """Send and write the frames that have arrived, and charge the time (drain thread)."""
        begun_ns, written_ns = thread_cpu(), self._rank_state.frames_ns
        _share(written_ns - self._written_ns, self._to_write)
        if written_ns > self._written_ns:
            self._written_ns = written_ns
            self._to_write.clear()
        delivered: Counter[ActiveWatch] = Counter()
        while self._captures and self._captures[0].is_ready():
            capture = self._captures.popleft()
            if capture.is_lost:
                self._recorder.dropped += len(capture.each)
                continue
            for frame in capture.frames(self._token_names):
                if self._live.on_frame is not None:
                    self._live.on_frame(frame)
                self._unwritten.append((capture.ts_ns, frame))
            if capture.active is not None:
                delivered[capture.active] += capture.values.nbytes
            capture.release(self._buffers)
        if self._unwritten:
            self._write()
        _share(thread_cpu() - begun_ns, delivered)
        self._to_write += delivered

    def finish(self) -> None:
        """Deliver what is there, waiting shortly for copies in progress."""
        until_s = time.monotonic() + LAST_COPY_S
        self.deliver()
        while self._captures and time.monotonic() < until_s:
            time.sleep(0.01)
            self.deliver()

    def _write(self) -> None:
        """Write frames once the run is known; until then drop the oldest ones beyond the bound."""
        if not self._rank_state.writes_rows:
            held = sum(len(frame.data) for _, frame in self._unwritten)
            while held > MAX_WAITING_BYTES:
                held -= len(self._unwritten.popleft()[1].data)
                self._recorder.dropped += 1
            return
        while self._unwritten:
            ts_ns, frame = self._unwritten.popleft()
            row = {name: getattr(frame, name) for name in _COLUMNS}
            self._recorder.add_row("frames", ts_ns=ts_ns, **row)


def _share(ns: int, num_bytes: Mapping[ActiveWatch, int]) -> None:
    """Charge CPU time of the drain thread to the watches whose bytes it was for."""
    total = sum(num_bytes.values())
    for active, own in num_bytes.items():
        active.drain_ns += ns * own // total
