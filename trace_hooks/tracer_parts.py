"""The parts that record one process: how they are put together, started and ended."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trace_hooks.job.session import Session
from trace_hooks.recording import guard
from trace_hooks.recording.clock import Anchor, HostClock
from trace_hooks.recording.cuda.drain_device import DrainDevice
from trace_hooks.recording.drain_thread import Chore, Drain
from trace_hooks.recording.exit_handlers import Exits
from trace_hooks.recording.recorder import Recorder
from trace_hooks.recording.step_counter import StepCounter
from trace_hooks.recording.step_sampling import StepSampling
from trace_hooks.settings import Settings
from trace_hooks.sources.context import SourceContext, SourceOptions
from trace_hooks.sources.installed import InstalledSources
from trace_hooks.watchdog.rank_side import RankSide

if TYPE_CHECKING:
    from trace_hooks.agent.connection import Agent

log = logging.getLogger("trace_hooks")

STOP_TIMEOUT_S = 10.0
"""The end of training waits at most this long for the last write."""


class Recording:
    """Recorder, steps and sources of a process, and the parts that write what they record.

    `ordinal`: how many recordings this process had before. `stop(status, error)` is called once
    when the process ends by itself.
    """

    def __init__(
        self,
        settings: Settings,
        model: Any,
        ordinal: int,
        stop: Callable[[str, str | None], None],
    ) -> None:
        guard.account.reset()
        anchor = Anchor()
        recorder = Recorder()
        recorder.rank_state.layout = settings.layout
        self.steps = StepCounter(recorder, self._step_begins, self._step_ends)
        sampling = StepSampling(settings.spans_every)
        self.context = SourceContext(recorder, self.steps, _options(settings), sampling=sampling)
        self._rank_state = recorder.rank_state
        self._drain = Drain(recorder, anchor, sampling)
        self._session = Session(settings, recorder, anchor, self._drain, model, ordinal)
        self.sources = InstalledSources(settings.sources, self.context)
        self._drain_device = DrainDevice(self._rank_state)
        self._drain.chores = [
            Chore("tracer.drain_device", self._drain_device.prepare, stays_on=False),
            *self._session.chores(),
            Chore("tracer.steps", self.steps.publish),
            *self.sources.chores(),
        ]
        self._anchor = anchor
        self._settings = settings
        self._rank_side: RankSide | None = None
        self._agent: Agent | None = None
        self._exits = Exits(stop, self._drain.wakeup.fileno())
        self._drain.on_terminate = self._exits.terminate_from_drain

    def begin(self) -> None:
        """Install the sources, start the drain thread and meet the host's watchdog."""
        guard.attempt("tracer.watching", self._begin_rank_side, switch_off=False)
        guard.attempt("tracer.agent", self._begin_agent, switch_off=False)
        self._session.on_identity += [source.place for source in self.sources.all]
        self.sources.install()
        self._exits.install()
        try:
            self._drain.start()
        except RuntimeError:  # the system has no thread to give: nobody would take the rows
            self._give_up()
            raise

    def _give_up(self) -> None:
        self.sources.uninstall()
        self.context.recorder.end()
        if self._agent is not None:
            self._agent.stop()
        if self._rank_side is not None:
            guard.attempt("tracer.watching", self._rank_side.end, switch_off=False)
        self._exits.uninstall()
        self._drain.close()

    def abandon(self) -> None:
        """Become inert without writing: this is a forked child, the parent has the run."""
        self._exits.forget()
        self._rank_state.ring = None
        if self._agent is not None:
            self._agent.abandon()

    def end(self, status: str, error: str | None) -> None:
        """Write what is left and remove the hooks."""
        self._exits.ending = True
        try:
            self._write_last(status, error)
        finally:  # also where Ctrl-C interrupts it: a SIGTERM must not wait for its end for ever
            self._exits.uninstall()
        if not self._exits.owns_wakeup_fd:  # signals must not go to a reused descriptor
            self._drain.close()

    def _write_last(self, status: str, error: str | None) -> None:
        if self.steps.running and self.steps.explicit:
            self.steps.end()
        self._rank_state.phase = "ending"
        self.sources.uninstall()  # ends or forgets an automatic step
        self.steps.publish_last()
        self._session.close()
        self._drain.at_end = self._find_all
        self._drain.after_end = lambda: self._write_end(status, error)
        if self._drain.stop(STOP_TIMEOUT_S):
            self.context.recorder.end()
        else:
            log.warning(
                "trace_hooks: the last rows could not be written within %s s and are lost; is the "
                "disk slow or full?",
                STOP_TIMEOUT_S,
            )
        if self._agent is not None:
            self._agent.stop(status, self._drain.finished.is_set)

    def _begin_rank_side(self) -> None:
        rank_side = RankSide(self._settings, self._rank_state, self._anchor)
        self._rank_side = rank_side
        self._session.spool = rank_side.spool
        self._session.on_identity.append(rank_side.place)
        self._drain.chores.append(Chore("watching.beat", rank_side.beat, 1.0))
        rank_side.start_watchdog()

    def _begin_agent(self) -> None:
        """Connect to the server, where the user has named one."""
        if self._settings.server is None:
            return
        from trace_hooks.agent.connection import Agent  # websockets: only for jobs that use it
        from trace_hooks.agent.span_requests import SpanRequests
        from trace_hooks.agent.watch_commands import ServerWatches

        live, inspection = self.context.live, self.sources.named("inspection")
        if inspection is not None:
            allowed = self._settings.allow_content
            ServerWatches(self._rank_state, inspection, allowed).join(live)
        SpanRequests(self._rank_state, self.context.sampling).join(live)
        rank_side = self._rank_side
        self._agent = Agent(
            self._settings.server,
            self._rank_state,
            live,
            ships=self._settings.ships,
            meeting=rank_side.folder if rank_side is not None and rank_side.has_relay else None,
        )
        self._session.on_identity.append(self._agent.place)
        live.on_frame = self._agent.offer
        self._agent.start()

    def _step_begins(self) -> None:
        guard.attempt("tracer.device", self._find_device)
        guard.attempt("tracer.clock", self._choose_clock)
        _begin_step(self.sources)

    def _step_ends(self) -> None:
        guard.attempt("tracer.device", self._find_device)  # the first step may begin to use one
        _end_step(self.sources)

    def _find_device(self) -> None:
        """Note the device of the job once it uses one: only the job's own thread knows."""
        if self._rank_state.cuda_device is not None:
            return
        torch: Any = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        if cuda is not None and cuda.is_initialized():
            self._rank_state.cuda_device = int(cuda.current_device())

    def _choose_clock(self) -> None:
        """Use the accelerator's clock once the job has one and the drain thread may query it."""
        device, recorder = self._rank_state.cuda_device, self.context.recorder
        is_chosen = not isinstance(recorder.device_clock, HostClock)
        if device is None or is_chosen or not self._drain_device.is_ready:
            return
        import torch

        if torch.cuda.current_device() == device and not torch.cuda.is_current_stream_capturing():
            from trace_hooks.recording.cuda.cuda_clock import CudaClock, CudaEvents

            clock = CudaClock(CudaEvents(device), f"cuda:{device}", _clock_failed)
            recorder.device_clock = clock

    def _find_all(self) -> None:
        self.sources.finish()
        self._session.find_identity(last_call=True)
        self._session.note_if_empty()
        self._session.find_offset()

    def _write_end(self, status: str, error: str | None) -> None:
        self._session.end(status, error)
        self._session.write_files()
        if self._rank_side is not None:
            self._rank_side.end()


def _clock_failed(error: Exception) -> None:
    """The device has failed, which ends the job; the host's events are recorded until then."""
    guard.account.failed("tracer.cuda_clock", error, switch_off=False)


@guard.guarded("tracer.sources_begin", stays_on=True, exact=True)
def _begin_step(sources: InstalledSources) -> None:
    sources.step_begins()


@guard.guarded("tracer.sources_end", stays_on=True, exact=True)
def _end_step(sources: InstalledSources) -> None:
    sources.step_ends()


def _options(settings: Settings) -> SourceOptions:
    return SourceOptions(
        settings.level,
        settings.statistics_every,
        settings.allow_content,
        settings.watches,
        settings.allow_perturbation,
    )
