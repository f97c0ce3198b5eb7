"""Lines of Hugging Face's Trainer, and of TRL's, that its ProgressCallback prints.

    {'loss': 1.5, 'grad_norm': 1.25, 'learning_rate': 6e-07, 'epoch': 0.01}
      1%|          | 10/1000 [00:05<08:15,  2.00it/s]

Some callbacks add the step; the Trainer itself does not. The progress bar is drawn again right
after each line and shows it, where the bar is in the same file, with the carriage returns in
front of its states (a bar without them shows a later step), and the lines were not held back in a
buffer: several of them stand together then, and none is taken.
"""

from __future__ import annotations

import re

from ingest.readers.logs.training.numbers import FLOAT, as_float
from ingest.readers.tables.logged_step import LoggedStep, logged_step

SIGNS = (b"{'loss': ",)
BAR = b"%|"
"""What a progress bar has."""

_FIELD = re.compile(rf"'(loss|grad_norm|learning_rate)': '?({FLOAT})'?(?=[,}}])")
_STEP = re.compile(r"'(?:step|global_step(?:/max_steps)?)': '?(\d{1,15})(?=[,}/'])")
_BAR = re.compile(r"\r[ ]{0,4}\d{1,3}%\|[^|]{0,200}\| (\d{1,15})/(\d{1,15}) \[")
_NAMES = {"loss": "loss", "grad_norm": "grad_norm", "learning_rate": "lr"}


class HuggingFaceLines:
    """The lines of one file, each with the bar that follows it."""

    def __init__(self) -> None:
        self.num_without_step = 0
        self.waits = False
        """for the bar behind a line"""
        self._numbers: dict[str, float] = {}
        self._total = ""

    def add_line(self, text: str) -> LoggedStep | None:
        """A line of losses; its step where it names one. One that waits for its bar has none."""
        numbers = {_NAMES[name]: as_float(value) for name, value in _FIELD.findall(text)}
        step = _STEP.search(text)
        self.waits = step is None
        if step is not None:
            return logged_step(int(step[1]), dict(numbers))
        self.num_without_step += 1
        self._numbers = numbers
        return None

    def add_bar(self, text: str) -> LoggedStep | None:
        """A text with states of a bar; the step of the line before it, if it is the training's."""
        state = _BAR.search(text)
        if state is None or not self.waits:
            return None
        self.waits = False
        self._total = self._total or state[2]
        if state[2] != self._total:
            return None
        self.num_without_step -= 1
        return logged_step(int(state[1]), dict(self._numbers))
