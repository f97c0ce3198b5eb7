"""What the training thread does from the start of its process to the end of its first step.

Sees: the time before the hooks were started (from /proc), their own start, and then, five times a
second, which call the training thread is in: imports, init_process_group, new_group, the making of
the model, reads of checkpoints, compilation, the first batch, and otherwise the function of the
job's own code. A stretch is written while it lasts, so a rank that hangs in one is seen in it.
Misses: what lasts less than a fifth of a second, and what a call does while it holds the GIL (all
of it counts as that call). A rank that is not told its run yet (before init_process_group returns)
keeps its rows until then.
Costs: nothing on the training thread but its two looks at the clock; the drain thread has all
stacks dumped, which holds the global lock for about half a millisecond, until the first step ends.
"""

from __future__ import annotations

import os
import sys
import time
from threading import get_ident

from trace_hooks.job.process_info import process_age_ns
from trace_hooks.recording.clock import now
from trace_hooks.recording.dumped_stack import StackDump
from trace_hooks.schema import BEFORE_FIRST_STEP, UNKNOWN
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.startup.stack_phases import IN_FIRST_STEP, Place, place_of
from trace_hooks.sources.startup.stretches import Stretches

LONGEST_NS = 24 * 3600 * 1_000_000_000
"""A job that makes no step is looked at this long."""

BEFORE_HOOKS = Place("before", "imports and what else ran before trace_hooks.start")
HOOKS = Place("hooks", "trace_hooks.start")

_seen_from_its_start = 0
"""Pid of the process whose beginning is recorded: a second tracer in it is not its start-up."""


class Startup(Source):
    """Rows of `startup`, see the module's docstring."""

    name = "startup"
    poll_s = 0.2

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._begun_ns = now()
        self._cpu_ns = time.process_time_ns()
        self._thread = 0
        self._stretches: Stretches | None = None
        self._dump: StackDump | None = None
        self._ended_ns: int | None = None  # of the first step

    def install(self) -> None:
        """Record what was before the hooks; this thread is the one that trains."""
        global _seen_from_its_start
        self._thread = get_ident()
        if _seen_from_its_start == os.getpid() or _is_interactive():
            return
        _seen_from_its_start = os.getpid()
        age_ns = process_age_ns()
        if age_ns is not None:
            began_ns = min(now() - age_ns, self._begun_ns)
            self._add(began_ns, self._begun_ns, BEFORE_HOOKS, "process", self._cpu_ns)

    def uninstall(self) -> None:
        """Write what is known of a job that ends before its first step."""
        if self._stretches is not None and self._ended_ns is None:
            self._stretches.close()
        self._ended_ns = self._ended_ns or now()
        self._close_dump()

    def step_end(self) -> None:
        """The first step has ended, and with it the start-up."""
        if self._ended_ns is None:
            self._ended_ns = now()

    def poll(self) -> None:
        """Look at what the training thread does (drain thread)."""
        at_ns = now()
        if self._stretches is None:
            self._stretches = Stretches(self._add, at_ns)
            if self._ended_ns is None:
                self._add(self._begun_ns, at_ns, HOOKS, "measured")
                self._dump = StackDump()
        elif self._ended_ns is not None or at_ns - self._begun_ns > LONGEST_NS:
            self._stretches.close()
            self._close_dump()
        else:
            self._stretches.see(at_ns, self._look())

    def _close_dump(self) -> None:
        dump, self._dump = self._dump, None
        if dump is not None:
            dump.close()

    def _look(self) -> Place | None:
        dump = self._dump
        place = place_of(dump.stack_of(self._thread)) if dump is not None else None
        in_step = self.rank_state.step > BEFORE_FIRST_STEP
        return None if in_step and place and place.phase not in IN_FIRST_STEP else place

    def _add(
        self, begin_ns: int, end_ns: int, place: Place, how: str = "sampled", cpu_ns: int = UNKNOWN
    ) -> None:
        self.recorder.add_row(
            "startup",
            step=BEFORE_FIRST_STEP,
            ts_ns=begin_ns,
            dur_ns=end_ns - begin_ns,
            cpu_ns=cpu_ns,
            phase=place.phase,
            what=place.what,
            how=how,
        )


def _is_interactive() -> bool:
    """Whether a person started the process long before the job: a prompt, or a notebook."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules
