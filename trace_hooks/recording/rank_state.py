"""What this rank is doing now: written where it changes, read by every part of the hooks."""

from __future__ import annotations

from typing import Protocol

from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import BEFORE_FIRST_STEP, UNKNOWN


class EnqueueRing(Protocol):
    """Write-ahead log of collectives: what a rank was about to enter survives the rank."""

    def write(
        self,
        group_id: int,
        seq: int,
        op: str,
        dtype: str,
        num_bytes: int,
        peer: int,
        tag: int,
        step: int,
        time_ns: int,
    ) -> int:
        """Store one record, before the call it announces; no flush, no system call."""

    def ended(self, number: int, time_ns: int) -> None:
        """Note the end of what the record with this number announced."""


class RankState:
    """One rank's position in training, and what is known about its process so far."""

    def __init__(self) -> None:
        self.step = BEFORE_FIRST_STEP
        self.phase = "init"  # init, step, data, checkpoint or ending
        self.last_op = ""  # collective entered last
        self.microbatch = UNKNOWN  # of the pipeline action running now; spans inside inherit it
        self.chunk = UNKNOWN
        self.prompting_thread = 0
        """Ident of the thread that runs the model for a prompt: that is no training, so its
        forwards, collectives and messages are not recorded. 0: no prompt runs.
        """
        self.evaluating_thread = 0
        """Ident of the thread on which the job has a span of kind evaluation open; 0 none."""
        self.outermost_evaluation: object = None  # the mark of that span
        self.evaluated_ns = 0  # end of the newest evaluation, by clock.now()
        self.layout: ParallelLayout | None = None  # given by the user, or detected later
        self.cuda_device: int | None = None  # number of the one that the training thread uses
        self.ring: EnqueueRing | None = None  # None: this host has no room for one
        self.log_files: dict[str, str] = {}
        """Log files of this rank alone, by stream, which the watchdog reads."""
        self.writes_rows = False  # run and attempt are known, so rows reach the disk
        self.frames_ns = 0  # CPU time that the drain thread has spent on writing frames
