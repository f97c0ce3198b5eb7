"""Batches handed out by torch's DataLoader, and how long the step was blocked on them.

Sees: every `next()` of a DataLoader iterator in the training process, also of torchdata's
StatefulDataLoader. Without workers it is the fetching itself (data_fetch); with workers it is the
wait for one (data_wait), the exposed part. Each batch is a row of data_batches, with the lengths
and sources that the job states of it (tracer.batch); it belongs to the step that runs, or to the
next one. Making the iterator, which starts the workers, is a data_wait. What workers fetch is
recorded in them (loader_workers.py). Samples by source are those that the job states, else those
that libraries drew until the end of the step, here or in workers (sources/mixtures/libraries.py).
Misses: other loaders (DALI, tf.data, a plain generator). Costs: two clock readings and one look at
the batch; see benchmarks/hook_overhead.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import get_ident
from typing import Any, NamedTuple

from torch.utils.data import dataloader

from trace_hooks.recording.clock import now, thread_cpu
from trace_hooks.recording.guard import guarded
from trace_hooks.recording.recorder import Mark
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.mixtures.draws import UNHARMED, Draws
from trace_hooks.sources.mixtures.libraries import libraries
from trace_hooks.sources.mixtures.weighted_sampler import mixture_of
from trace_hooks.sources.patching import Patches, around
from trace_hooks.sources.training.autostep import AutoSteps
from trace_hooks.sources.training.batch_tokens import ids_hash, num_tokens
from trace_hooks.sources.training.described_batch import Described
from trace_hooks.sources.training.evaluation import Evaluations
from trace_hooks.sources.training.loader_workers import LoaderWorkers
from trace_hooks.sources.training.worker_fetches import WorkerStart

MOST_BATCHES = 100
"""Batches that wait for the end of their step."""

STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"
"""Its loader makes its iterator in a method of its own."""


class _Made(NamedTuple):
    """An iterator in the making."""

    name: str
    mark: Mark
    loader: Any
    start: WorkerStart | None


class DataLoaders(Source):
    """Spans and rows of DataLoader batches, see the module's docstring."""

    name = "data"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._auto = AutoSteps.shared(context.steps)
        self._evaluations = Evaluations.shared(context)
        self._patches = Patches()
        self._pid = os.getpid()
        self._draws = Draws()
        self._workers = LoaderWorkers(context.recorder, self._draws)
        self._job_states_sources = False
        self._has_stateful = False
        self._batches: list[dict[str, Any]] = []  # the job may still describe the newest

    def install(self) -> None:
        """Wrap the making and the `next()` of all DataLoader iterators."""
        iterator = dataloader._BaseDataLoaderIter
        self._pid = os.getpid()
        self._patches.replace(iterator, "__next__", self._recorded)
        self._patches.replace(dataloader.DataLoader, "__iter__", self._around_iter)
        self._look_for_stateful()
        Draws.current = self._draws
        libraries.adapt()
        self._evaluations.on_forward = self._evaluates

    def uninstall(self) -> None:
        """Restore what was wrapped, and record what workers have fetched until now."""
        self._evaluations.on_forward = None
        self._patches.restore()
        libraries.restore()
        Draws.current = None
        self._add_batches()
        self._workers.close()
        self._add_draws()

    def step_end(self) -> None:
        """The batches of the step are described by now."""
        self._add_batches()
        self._add_draws()

    def describe(self, described: Described) -> None:
        """What the job states of its newest batch, or of one that no DataLoader made."""
        if not self._batches:
            self._batches.append(self._row(now()))
        if described.lengths is not None:
            lengths = [length for some in described.lengths.values() for length in some]
            self._batches[-1]["tokens"] = sum(lengths)
            self._batches[-1]["sum_sq_len"] = sum(length**2 for length in lengths)
            for microbatch, some in described.lengths.items():
                self.recorder.add_row(
                    "batch_lengths", ts_ns=now(), microbatch=microbatch, lengths=some
                )
        if described.samples:
            self._job_states_sources = True
            self._add_sources(described.samples, described.planned)

    def _add_draws(self) -> None:
        samples = self._draws.take()
        if any(samples.values()) and not self._job_states_sources:
            planned = dict(self._draws.planned)
            self._add_sources({**dict.fromkeys(planned, 0), **samples}, planned)

    def _add_sources(self, samples: Mapping[str, int], planned: Mapping[str, float]) -> None:
        for source, number in samples.items():
            self.recorder.add_row(
                "batch_sources",
                ts_ns=now(),
                source=source,
                samples=number,
                planned=planned.get(source),
            )

    def _add_batches(self) -> None:
        batches, self._batches = self._batches, []
        for batch in batches:
            if batch["step"] is None:
                batch["step"] = self.rank_state.step
            if batch["tokens"] > 0 and batch["step"] == self.rank_state.step:
                self.context.steps.count_tokens(batch["tokens"])
            self.recorder.add_row("data_batches", **batch)

    def _evaluates(self, since_ns: int) -> None:
        """Batches since then are those of an evaluation, and of no step."""
        self._batches = [batch for batch in self._batches if batch["ts_ns"] < since_ns]

    def _row(self, at_ns: int) -> dict[str, Any]:
        """A batch of which nothing is known. `step` None: of the next one."""
        if len(self._batches) >= MOST_BATCHES:  # a job without steps
            self._add_batches()
        step = self.rank_state.step if self.rank_state.phase == "step" else None
        unknown = dict.fromkeys(("fetch_ns", "exposed_ns", "tokens", "sum_sq_len"), UNKNOWN)
        known = {"ts_ns": at_ns, "step": step, "source": "", "ready": None, "ids_hash": None}
        return known | unknown

    def poll(self) -> None:
        """Read the rings of the workers."""
        self._look_for_stateful()
        libraries.adapt()
        self._workers.poll()

    def _look_for_stateful(self) -> None:
        """The job may import it at any time."""
        stateful = getattr(sys.modules.get(STATEFUL), "StatefulDataLoader", None)
        if stateful is not None and not self._has_stateful:
            self._has_stateful = True
            self._patches.replace(stateful, "__iter__", self._around_iter)

    def _recorded(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def __next__(iterator: Any) -> Any:
            begin_ns, cpu_ns = now(), thread_cpu()
            batch = original(iterator)  # StopIteration and workers' errors pass: no batch, no row
            self._fetched(iterator, batch, begin_ns, cpu_ns)
            return batch

        __next__.__wrapped__ = original  # type: ignore[attr-defined]
        return __next__

    def _around_iter(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return around(original, self._iter_begins, self._iter_made, "data.iter_made")

    @guarded("data.iter_begins")
    def _iter_begins(self, loader: Any) -> _Made:
        self._evaluations.loader_begins(now())
        name, mark = f"{type(loader.dataset).__name__} start", self.recorder.open()
        libraries.adapt()
        with UNHARMED:
            mixture = mixture_of(loader)
            if mixture is not None:
                self._draws.plan(*mixture)
        return _Made(name, mark, loader, self._workers.prepare(loader))

    @guarded("data.iter_made")
    def _iter_made(self, made: _Made) -> None:
        if made.start is not None:
            self._workers.restore(made.loader, made.start)
        self.recorder.close(self.recorder.site(made.name, "data_wait"), made.mark)

    @guarded("data.fetched")
    def _fetched(self, iterator: Any, batch: Any, begin_ns: int, cpu_ns: int) -> None:
        end_ns = now()
        if os.getpid() != self._pid:  # a worker that iterates a loader of its own
            return
        is_evaluation = self.rank_state.evaluating_thread == get_ident()
        if not is_evaluation:
            if not self._evaluations.has_batch(id(iterator)):
                self._auto.activity(begin_ns)
            self._evaluations.uses_loader(id(iterator), begin_ns)
        recorder = self.recorder
        in_workers = iterator._num_workers > 0
        source = type(iterator._dataset).__name__
        recorder.add_span(
            recorder.site(source, "data_wait" if in_workers else "data_fetch"),
            begin_ns,
            end_ns,
            step=self.rank_state.step,
            cpu_ns=thread_cpu() - cpu_ns,
            microbatch=self.rank_state.microbatch,
        )
        if is_evaluation:
            return
        batch_row = self._row(begin_ns) | {
            "source": source,
            "fetch_ns": UNKNOWN if in_workers else end_ns - begin_ns,
            "exposed_ns": end_ns - begin_ns,
            "tokens": num_tokens(batch),
            "ready": num_ready(iterator) if in_workers else None,
            "ids_hash": ids_hash(batch),
        }
        self._batches.append(batch_row)


def num_ready(iterator: Any) -> int | None:
    """Batches that workers have made and the job has not taken yet; None unknown."""
    with suppress(AttributeError, NotImplementedError, OSError):
        early = sum(len(info) == 2 for info in iterator._task_info.values())
        queue = getattr(iterator, "_data_queue", None)
        pinned = 0 if queue is iterator._worker_result_queue or queue is None else queue.qsize()
        return int(early + iterator._worker_result_queue.qsize() + pinned)
    return None
