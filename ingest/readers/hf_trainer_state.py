"""trainer_state.json of Hugging Face's Trainer (and TRL's, and peft's): what it logged, by steps.

One JSON object with `global_step` and `log_history`, a list of objects such as
{"epoch": 0.01, "grad_norm": 1.2, "learning_rate": 5e-05, "loss": 2.1, "step": 10}, in newer
versions also `train_runtime` and tokens, which are counted from the beginning. A folder of
checkpoints has one in each of them; the longest holds all that the others have. Source:
TrainerState of transformers/trainer_callback.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ingest.readers.base import Format
from ingest.readers.parsing.json_events import EventStream, decode_objects, tolerant_object
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.logged_step import LoggedStep, logged_step, ns_of_ms
from ingest.readers.tables.scalar_series import ScalarFile, ScalarImport
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.training_steps import TrainingSteps

FORMAT = Format(
    "hf_trainer_state", "Hugging Face trainer_state.json", is_generic=True, accompanies=True
)

_KEYS = (b'"log_history"', b'"global_step"')
_CHECKPOINT = re.compile(r"(?:^|/)checkpoint-\d{1,12}/[^/]*$")
_TOKENS = ("num_input_tokens_seen", "num_tokens")


def recognises(source: Source) -> bool:
    """Whether it is the state of a trainer."""
    is_object = source.head.lstrip()[:1] == b"{"
    return is_object and all(key in source.head for key in _KEYS)


def read(source: Source, staged: StagedRows) -> ScalarFile | None:
    """Read one file."""
    stream = EventStream(source.read, decode_objects, tolerant_object, "log_history")
    file = ScalarFile(source.name, TrainingSteps(), _training_of(source.name))
    tokens, seconds = _Count(_TOKENS), _Count(("train_runtime",))
    newest: dict[str, Any] = {}
    for entries in stream:
        for entry in entries:
            newest = entry
            step = _step_of(entry)
            if step is not None:
                step.tokens = tokens.per_step(entry, step.step)
                length_s = seconds.per_step(entry, step.step)
                step.dur_ns = None if length_s is None else ns_of_ms(length_s * 1e3)
                file.steps.add(step)
    for problem in (*source.damages(), *stream.problems):
        staged.add_problem(f"{source.name}: {problem}")
    file.guesses = _whole(newest)
    return file


def _training_of(name: str) -> str:
    """What the states of one training share: their folder, or that of its checkpoints."""
    name = name.replace("\\", "/")
    return _CHECKPOINT.sub("", name) if _CHECKPOINT.search(name) else str(PurePath(name).parent)


def _step_of(entry: dict[str, Any]) -> LoggedStep | None:
    """The step of an entry that has a loss; evaluations and the summary have none."""
    if "loss" not in entry or type(entry.get("step")) is not int:
        return None
    return logged_step(
        entry["step"],
        {
            "loss": _number(entry.get("loss")),
            "grad_norm": _number(entry.get("grad_norm")),
            "lr": _number(entry.get("learning_rate")),
        },
    )


@dataclass
class _Count:
    """A number that entries count from the beginning of the training."""

    keys: tuple[str, ...]
    step: int = 0
    count: float = 0.0

    def per_step(self, entry: dict[str, Any], step: int) -> float | None:
        """By how much it grew with each step since the entry before; None unknown."""
        count = next((n for key in self.keys if (n := _number(entry.get(key))) is not None), None)
        if count is None or not math.isfinite(count):
            return None
        grown, steps = count - self.count, step - self.step
        self.step, self.count = step, count
        return grown / steps if grown >= 0 and steps > 0 else None


def _whole(last: dict[str, Any]) -> list[str]:
    """How long all of it took, as the last entry of a training that ended says."""
    seconds, steps = _number(last.get("train_runtime")), last.get("step")
    if seconds is None or type(steps) is not int or "train_loss" not in last:
        return []
    return [f"the training ended at step {steps:,} and took {seconds:,.1f} s in all"]


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < 1e300 or value != value else None


class Import(ScalarImport):
    """One import: the states of one training."""

    what = "states of the Trainer"

    def add_file(self, file: ScalarFile) -> None:
        """One state; of one training the longest counts."""
        same = next((other for other in self._files if other.run == file.run), None)
        if same is None:
            super().add_file(file)
        elif len(file.steps.steps) > len(same.steps.steps):
            self._files[self._files.index(same)] = file
