"""The steps of a job from all of its logs: whose they are, and rows of them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ingest.limits import limits
from ingest.readers.base import Sink
from ingest.readers.logs.training.lines import TrainingLog
from ingest.readers.logs.training.megatron_timers import KINDS
from ingest.readers.tables.span_list import SpanList, write_steps
from ingest.readers.tables.training_steps import TrainingSteps
from trace_hooks.layout import ParallelLayout

_NOBODY = -1
"""Rank of steps of the whole job."""


class TrainingJob:
    """The steps of one import, by rank. `world_size`: -1 unknown; `layout`: None unknown."""

    def __init__(self) -> None:
        self.ranks: dict[int, TrainingSteps] = {}
        self.world_size = -1
        self.layout: ParallelLayout | None = None
        self._timers: dict[tuple[int, int], dict[str, int]] = {}
        self._num_without_step = 0

    def add(self, log: TrainingLog, rank_of: Callable[[int], int], shift_ns: int) -> None:
        """One log. `rank_of`: rank of a line's; `shift_ns`: to add to its times."""
        if log.world_size > self.world_size:
            self.world_size, self.layout = log.world_size, log.layout
        self._num_without_step += log.num_without_step
        self._timers |= log.timers
        for named, steps in log.ranks.items():
            rank = rank_of(named)
            rank = rank if 0 <= rank < limits().max_ranks else _NOBODY
            if shift_ns:
                steps.shift(shift_ns)
            before = self.ranks.get(rank)
            if before is not None and steps.first_ns < before.first_ns:
                before, steps = steps, before
            self.ranks[rank] = steps if before is None else before.continued(steps)

    def leave_out(self, sink: Sink) -> None:
        """Say that they are not taken: next to a trace, which has steps of its own, or to other
        files that may.
        """
        num_steps = sum(len(steps.steps) for steps in self.ranks.values())
        if num_steps:
            sink.add_guess(
                f"{num_steps:,} steps in the logs (loss, learning rate, speed) were left out, "
                "because a run takes its steps from one kind of files; import the logs by "
                "themselves to see them"
            )
        self.ranks.clear()
        self._timers.clear()
        self._num_without_step = 0

    def write(self, sink: Sink, known: Collection[int]) -> dict[int, tuple[int, int]]:
        """Rows of all steps; returns when each rank begins and ends, in Unix ns.

        `known`: ranks that logs name.
        """
        if _NOBODY in self.ranks:
            self._give_to_rank_0(sink, known)
        relative = not all(steps.have_times for steps in self.ranks.values())
        if relative:
            sink.set_clock("per_step_relative")
            sink.add_guess("not every step has a time: every step begins at 0")
        extents = {}
        for rank, steps in sorted(self.ranks.items()):
            steps.refine_times()
            extents[rank] = steps.write(sink, rank, self.world_size, relative)
            for guess in steps.guesses():
                sink.add_guess(f"steps of rank {rank}: {guess}")
        extents |= self._write_timers(sink, relative, extents)
        return extents

    def add_guesses(self, sink: Sink) -> None:
        """Say what was decided for all ranks, and what could not be taken."""
        if self.ranks and self.layout is not None and self.layout.world_size > 1:
            sink.add_guess(
                f"the layout {self.layout} has the sizes that the log names, in the order of axes "
                "that the framework has by default"
            )
        if self._num_without_step:
            sink.add_guess(
                f"{self._num_without_step:,} lines of losses name no step, and no progress bar "
                "behind them does: left out; trainer_state.json has them with their steps"
            )

    def _give_to_rank_0(self, sink: Sink, known: Collection[int]) -> None:
        steps = self.ranks.pop(_NOBODY)
        if 0 in self.ranks:
            sink.add_guess(
                f"{len(steps.steps):,} steps of lines that name no rank were left out, because "
                "rank 0 has steps of its own"
            )
            return
        self.ranks[0] = steps
        whose = "" if known else ", and no log names a rank"
        sink.add_guess(
            f"lines with steps name no rank{whose}: loss, tokens and lengths of the job's steps "
            "are shown as those of rank 0"
        )

    def _write_timers(
        self, sink: Sink, relative: bool, known: Collection[int]
    ) -> dict[int, tuple[int, int]]:
        """Spans of the timers of each rank, laid end to end in the steps; returns new extents.

        `known`: ranks that have rows of steps; the others get the lengths of the job's steps.
        """
        spans: dict[int, SpanList] = {}
        windows: dict[int, list[tuple[int, int, int]]] = {}
        steps = next(iter(self.ranks.values()), TrainingSteps()).steps
        for (rank, number), times in sorted(self._timers.items()):
            logged = steps.get(number)
            if logged is None or logged.length_ns is None:
                continue
            at_ns = begin_ns = 0 if relative else (logged.end_ns or 0) - logged.length_ns
            windows.setdefault(rank, []).append((number, begin_ns, begin_ns + logged.length_ns))
            for name, kind in KINDS.items():
                if name in times:
                    own = spans.setdefault(rank, SpanList())
                    own.add(at_ns, times[name], kind, name, "timers", number)
                    at_ns += times[name]
        if spans:
            sink.add_guess(
                "timers give how long the parts of a step took on a rank, not when: they are laid "
                "end to end; ranks without lines of their own have the job's steps"
            )
        for rank, own in spans.items():
            own.write(sink, rank, times_restart=relative)
        new = {rank: windows[rank] for rank in spans if rank not in known}
        for rank, own_windows in new.items():
            write_steps(sink, rank, own_windows)
        return {rank: (own[0][1], own[-1][2]) for rank, own in new.items()}
