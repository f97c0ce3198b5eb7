"""Ties one process to its run: identity, run.json, its rank file, the layout (drain thread)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

from trace_hooks.job.clock_offsets import ClockOffsets
from trace_hooks.job.handover import CHECK_S, PUBLISH_EVERY_S, HandoverWriter
from trace_hooks.job.identity import Identity
from trace_hooks.job.process_info import clock_domain, distributed
from trace_hooks.job.rendezvous import IdentityFinder
from trace_hooks.job.run_files import CPU, Device, cuda_device, describe_model, rank_info, run_info
from trace_hooks.job.spool import Destination, Spool
from trace_hooks.layout import ParallelLayout
from trace_hooks.recording import guard
from trace_hooks.recording.clock import Anchor, now
from trace_hooks.recording.drain_thread import Chore, Drain
from trace_hooks.recording.recorder import Recorder
from trace_hooks.recording.segment_writer import SegmentWriter
from trace_hooks.schema import publish_json, rank_file_name
from trace_hooks.settings import Settings

log = logging.getLogger("trace_hooks")

MOST_WAITING_BYTES = 1 << 30
"""Bytes of a rank's segments that may wait to be sent; beyond it new rows are dropped and
counted."""
LAYOUT_TRIES = 5
"""Looking for a layout walks all of Python's objects: done at the first steps only."""


NOTHING_SEEN = (
    "this process made no training step and joined no process group; where a script starts its "
    "ranks itself, TRACE_HOOKS_AUTO=1 has them traced (docs/hooks.md)"
)


class Session:
    """What a process knows about its place in the run, and the files that record it."""

    def __init__(
        self,
        settings: Settings,
        recorder: Recorder,
        anchor: Anchor,
        drain: Drain,
        model: Any,
        ordinal: int,
    ) -> None:
        self.identity: Identity | None = None
        self.on_identity: list[Callable[[Identity], object]] = []
        self.more_hooks: dict[str, Any] = {}  # added to the rank file's entry `hooks`
        self.spool: Spool | None = None  # of the host's collector
        self._handover: HandoverWriter | None = None
        self._settings = settings
        self._recorder = recorder
        self._rank_state = recorder.rank_state
        self._drain = drain
        self._model = model
        self._started_ns = time.time_ns()
        clock = (clock_domain(), anchor.offset_ns, anchor.err_ns)
        self.finder = IdentityFinder(settings, clock, ordinal)
        self._offsets = ClockOffsets(recorder, anchor, self.finder.prefix)
        self._shared = False
        self._shared_with = 0  # ranks of the job when it was shared
        self._joined = False  # a process group is there
        self._layout_tries = 0
        self._layout_step: int | None = None
        self._end: dict[str, Any] | None = None
        self._run_file_done = False
        self._device = CPU
        self._written = ""  # the rank file's text: it is written when that changes

    def chores(self) -> list[Chore]:
        """What the drain thread does for this session."""
        return [
            Chore("session.identity", self.find_identity),
            Chore("session.layout", self.find_layout),
            Chore("session.offset", self.find_offset, every_s=2.0),
            Chore("session.files", self.write_files, every_s=1.0),
            Chore("session.collector", self._check_collector, every_s=CHECK_S),
        ]

    def find_identity(self, last_call: bool = False) -> None:
        """Check whether run and attempt are known; once they are, begin to write."""
        if self.identity is None:
            stepping = self._rank_state.step >= 0
            self.identity = self.finder.poll(stepping, last_call)
            if self.identity is None:
                return
            self._begin_writing(self.identity)
        if not self._joined and distributed() is not None:
            self._joined = True
            self.identity = self.finder.revised(self.identity)
        if not self._shared or self.identity.place.world_size != self._shared_with:
            self._shared_with = self.identity.place.world_size
            self._shared = self.finder.share(self.identity)

    def note_if_empty(self) -> None:
        """Say why nothing was recorded, where a process ends that was no rank."""
        if self.identity is not None and self._rank_state.step < 0 and not self._joined:
            self._recorder.add_row("marks", ts_ns=now(), kind="note", text=NOTHING_SEEN)

    def find_offset(self) -> None:
        """Write what is known about this rank's clock against rank 0's."""
        if self.identity is not None:
            self._offsets.poll(self.identity, self.finder.own_store)

    def close(self) -> None:
        """End what uses the job's store."""
        self._offsets.close()

    def _begin_writing(self, identity: Identity) -> None:
        attempt, rank = identity.shared.attempt, identity.place.rank
        for callback in self.on_identity:
            guard.attempt("session.on_identity", lambda call=callback: call(identity))  # type: ignore[misc]
        if self.spool is not None:
            self.more_hooks["publish_every_s"] = PUBLISH_EVERY_S
        guard.attempt(
            "session.files", self.write_files, switch_off=False
        )  # recording works without them
        most_bytes = MOST_WAITING_BYTES if self._settings.ships else None
        own = SegmentWriter(identity.folder, attempt, rank, most_bytes=most_bytes)
        self._drain.writer = own
        if self.spool is not None:
            where = Destination(identity.folder, attempt, rank)
            self._drain.writer = self._handover = HandoverWriter(own, self.spool, where)
        self._rank_state.writes_rows = True

    def _check_collector(self) -> None:
        if self._handover is not None:
            self._handover.check()

    def find_layout(self) -> None:
        """Detect the layout at the first steps, unless the user gave it."""
        step = self._rank_state.step
        if (
            self._rank_state.layout is not None
            or self._layout_tries >= LAYOUT_TRIES
            or step == self._layout_step
            or distributed() is None
        ):
            return
        self._layout_step = step
        self._layout_tries += 1
        from trace_hooks.job.layout_detection import detect_layout

        self.set_layout(detect_layout(training=step >= 0))

    def set_layout(self, layout: ParallelLayout | None) -> None:
        """Take a layout over; the rank file follows."""
        self._rank_state.layout = layout

    def end(self, status: str, error: str | None) -> None:
        """Note how the process ended; `write_files` writes it."""
        self._end = {"ts_ns": time.time_ns(), "status": status, "error": error}

    def write_files(self) -> None:
        """Write run.json (rank 0, first attempt) and this rank's file where they have changed."""
        identity = self.identity
        if identity is None:
            return
        try:
            if not self._run_file_done:  # a check each second would load a shared file system
                self._write_run_file(identity)
                self._run_file_done = True
            self._write_rank_file(identity)
        except OSError as error:
            log.debug("cannot write to %s yet: %s", identity.folder, error)

    def _write_run_file(self, identity: Identity) -> None:
        path = identity.folder / "run.json"
        (identity.folder / "segments").mkdir(parents=True, exist_ok=True)
        if path.exists() or (identity.place.rank != 0 and not identity.guesses):
            return
        model = describe_model(self._model)
        shared = identity.shared
        publish_json(run_info(shared.run, shared.created_ns, model, list(identity.guesses)), path)

    def _find_device(self) -> Device:
        """Read once: a device that has failed would raise its error here."""
        index = self._rank_state.cuda_device
        if self._device is CPU and index is not None:
            self._device = cuda_device(index)
        return self._device

    def _write_rank_file(self, identity: Identity) -> None:
        place, shared = identity.place, identity.shared
        info = rank_info(
            attempt=shared.attempt,
            rank=place.rank,
            world_size=place.world_size,
            local_rank=place.local_rank,
            device=self._find_device(),
            started_ns=self._started_ns,
            layout=self._rank_state.layout,
            end=self._end,
            hooks={
                "level": self._settings.level,
                "spans_every": self._settings.spans_every,
                "sources": list(self._settings.sources),
                "errors": dict(guard.account.errors),
                "dropped": self._drain.dropped,
                "guesses": list(identity.guesses),
                **self.more_hooks,
            },
        )
        text = json.dumps(info)
        if text != self._written:
            path = identity.folder / "ranks" / rank_file_name(shared.attempt, place.rank)
            path.parent.mkdir(parents=True, exist_ok=True)
            self.finder.leave_agent_file(identity)
            publish_json(info, path)
            self._written = text
