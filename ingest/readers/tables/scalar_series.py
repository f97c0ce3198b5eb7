"""Series of scalars that loggers of training keep by name, as steps of one rank per file.

Names are taken where they are known to mean one thing; others are counted and named in a guess.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

from ingest.readers.base import Sink
from ingest.readers.tables.logged_step import logged_step, ns_of_ms
from ingest.readers.tables.rows import rank_info
from ingest.readers.tables.training_steps import MOST_STEPS, TrainingSteps

_COLUMNS: dict[str, tuple[str, ...]] = {
    "loss": (
        "loss",
        "train_loss",
        "train/loss",
        "loss/train",
        "training_loss",
        "train_loss_step",
        "train/loss_step",
        "lm loss",
        "reduced_train_loss",
        "loss_metrics/global_avg_loss",
    ),
    "grad_norm": ("grad_norm", "grad-norm", "grad norm", "train/grad_norm"),
    "lr": ("lr", "learning_rate", "learning-rate", "train/learning_rate", "train/lr"),
    "seconds": (
        "iteration-time",
        "iteration_time",
        "time_metrics/end_to_end(s)",
        "train_step_timing in s",
    ),
    "tokens_per_s": ("throughput(tps)",),
    "tflops_per_s": ("throughput", "tflops"),
}
"""Names by what they are: of Megatron-LM, torchtitan, NeMo, Hugging Face's Trainer, Lightning."""
_COLUMN_OF = {name: column for column, names in _COLUMNS.items() for name in names}
_OF_OPTIMIZER = re.compile(r"lr-[A-Z]\w{1,60}(?:/pg1)?")
"""What Lightning's LearningRateMonitor calls the rate of the (first group of the) optimizer."""
_MOST_NAMED = 6
_MOST_NAMES = 10_000


def column_of(name: str) -> str | None:
    """What a scalar of this name is: a key of the table above, or None."""
    known = _COLUMN_OF.get(name)
    return "lr" if known is None and _OF_OPTIMIZER.fullmatch(name) else known


class ScalarSeries:
    """The scalars of one file, in its order."""

    def __init__(self) -> None:
        self.unknown: Counter[str] = Counter()
        self._points: dict[tuple[int, int], dict[str, float]] = {}
        """(how often the steps had begun again, step) -> values by column, and end_ns"""
        self._newest: dict[str, tuple[int, int]] = {}
        """column -> key of its newest point"""

    def add(self, name: str, step: int, value: float, end_ns: int | None = None) -> None:
        """One point; raises ValueError above MOST_STEPS."""
        column = column_of(name)
        if column is None:
            if len(self.unknown) < _MOST_NAMES:
                self.unknown[name] += 1
            return
        again, newest = self._newest.get(column, (0, -1))
        key = (again + (step < newest), step)
        if key not in self._points and len(self._points) >= MOST_STEPS:
            raise ValueError(f"has more than {MOST_STEPS:,} steps, of which the first were read")
        self._newest[column] = key
        point = self._points.setdefault(key, {})
        point[column] = value
        if end_ns is not None:
            point.setdefault("end_ns", end_ns)

    def steps(self) -> TrainingSteps:
        """All points as steps."""
        found = TrainingSteps()
        for (_, number), point in sorted(self._points.items()):
            seconds, tflops = point.get("seconds"), point.get("tflops_per_s")
            numbers: dict[str, float | None] = {
                name: value for name, value in point.items() if name in _OF_STEP
            }
            if seconds is not None and math.isfinite(seconds):
                numbers["dur_ns"] = ns_of_ms(seconds * 1e3)
            if tflops is not None:
                numbers["flops_per_s"] = tflops * 1e12
            step = logged_step(number, numbers)
            if step is not None:
                found.add(step)
        return found

    def guesses(self) -> list[str]:
        """What was left out, in a sentence."""
        if not self.unknown:
            return []
        names = ", ".join(name[:80] for name, _ in self.unknown.most_common(_MOST_NAMED))
        more = ", ..." if len(self.unknown) > _MOST_NAMED else ""
        return [f"{len(self.unknown):,} other scalars were left out ({names}{more})"]


_OF_STEP = ("loss", "grad_norm", "lr", "tokens_per_s", "end_ns")


@dataclass
class ScalarFile:
    """One file, read. `rank`: None unknown; `run`: files of one are attempts of one training."""

    name: str
    steps: TrainingSteps
    run: str = ""
    rank: int | None = None
    host: str = ""
    guesses: list[str] = field(default_factory=list)


class ScalarImport:
    """One import of such files: `what` they are, in the plural."""

    what = ""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._files: list[ScalarFile] = []

    def add_file(self, file: ScalarFile) -> None:
        """One file."""
        self._files.append(file)

    def finish(self) -> None:
        """Write the steps of every rank."""
        if self._sink.ranks_by_pid() is not None:
            self._leave_out()
            return
        runs = self._chosen()
        if not runs:  # other files may lie next to these, and a run has a rank
            self._sink.add_rank(rank_info(0))
        for file in (file for files in runs.values() for file in files):
            for guess in file.guesses:
                self._sink.add_guess(f"{file.name}: {guess}")
        merged = {rank: _merged(files) for rank, files in runs.items()}
        relative = not all(steps.have_times for steps in merged.values())
        if relative and merged:
            self._sink.set_clock("per_step_relative")
            self._sink.add_guess(f"{self.what} do not say when steps ran: every step begins at 0")
        for rank, steps in sorted(merged.items()):
            self._write(rank, steps, runs[rank][-1], relative)

    def _write(self, rank: int, steps: TrainingSteps, file: ScalarFile, relative: bool) -> None:
        begin_ns, end_ns = steps.write(self._sink, rank, -1, relative)
        info = rank_info(rank, host=file.host, started_ns=begin_ns, ended_ns=end_ns)
        self._sink.add_rank(info)
        for guess in steps.guesses():
            self._sink.add_guess(f"steps of rank {rank}: {guess}")
        if not steps.have_lengths:
            self._sink.add_guess(
                f"{self.what} do not say how long steps took: their lengths are not recorded"
            )

    def _chosen(self) -> dict[int, list[ScalarFile]]:
        """Files with steps by rank; of those that name no rank, one training as rank 0."""
        ranks: dict[int, list[ScalarFile]] = {}
        nameless: dict[str, list[ScalarFile]] = {}
        for file in self._files:
            if not file.steps.steps:
                self._sink.add_problem(f"{file.name}: has no loss, learning rate or speed by steps")
            elif file.rank is not None:
                ranks.setdefault(file.rank, []).append(file)
            else:
                nameless.setdefault(file.run, []).append(file)
        if not nameless:
            return ranks
        longest = max(nameless, key=lambda run: sum(len(f.steps.steps) for f in nameless[run]))
        for run, files in nameless.items():
            if run != longest or 0 in ranks:
                self._sink.add_problem(
                    f"{files[0].name}: names no rank and is of another training than "
                    f"{nameless[longest][0].name}, left out; import it by itself"
                )
        if 0 not in ranks:
            self._sink.add_guess(
                f"{self.what} name no rank: the steps of the job are shown as those of rank 0"
            )
            ranks[0] = nameless[longest]
        return ranks

    def _leave_out(self) -> None:
        num_steps = sum(len(file.steps.steps) for file in self._files)
        self._sink.add_guess(
            f"{num_steps:,} steps of {len(self._files):,} files ({self.what}) were left out, "
            "because a run takes its steps from one kind of files; import them by themselves to "
            "see them"
        )


def _merged(files: list[ScalarFile]) -> TrainingSteps:
    """Steps of files of one rank, in the order of their times."""
    ordered = sorted(files, key=lambda file: file.steps.first_ns)
    merged = ordered[0].steps
    for file in ordered[1:]:
        merged = merged.continued(file.steps)
    return merged
