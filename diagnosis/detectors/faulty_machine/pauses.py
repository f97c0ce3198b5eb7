"""When the job as a whole slows down, stops, or pauses for a checkpoint, and since when.

The common level of each metric is compared with that of the minute before. Where it falls for
enough metrics at once, a pause begins; it ends once the levels are back, or after LONGEST_S, when
they are what is usual now.

Shapes: M metrics, G groups of machines that are compared with each other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from diagnosis.detectors.faulty_machine.series import Singles

CHANGE, NOISES = 0.1, 4.0
"""A level has changed by more than this share of it, and so many times what it varies."""

PAUSED = 0.15
"""Share of the metrics that change at once, more of them down than up."""

ENDS_S, LONGEST_S = 15.0, 600.0
_BEFORE_S, _LATELY = 60.0, 4
"""Length of the stretch before, and the bins up to now whose mean is compared with it: a step that
begins and ends is no pause."""
_FEWEST = 5


@dataclass
class Pauses:
    """State. `since`: bin in which the pause began, -1 none; `until`: the last bin of one."""

    bin_s: float
    since: int = -1
    until: int = -1
    _recent: deque[Singles] = field(default_factory=deque)
    _usual_MG: Singles | None = None
    _least_MG: Singles | None = None

    def push(self, level_MG: Singles, at: int) -> None:
        """Take the levels of one bin, whose number is `at`."""
        self._recent.append(level_MG)
        if len(self._recent) > _LATELY + max(round(_BEFORE_S / self.bin_s), _FEWEST):
            self._recent.popleft()
        if self.since < 0:
            self._begin(at)
            return
        if self._falls():
            self.until = at
        if (at - self.until) * self.bin_s >= ENDS_S or (at - self.since) * self.bin_s > LONGEST_S:
            self.since = -1
            newest = list(self._recent)[-_LATELY:]
            self._recent.clear()
            self._recent.extend(newest)

    def _begin(self, at: int) -> None:
        if len(self._recent) < _FEWEST + _LATELY:
            return
        before_BMG = np.array(self._recent)[:-_LATELY]
        self._usual_MG = np.median(before_BMG, axis=0)
        noise_MG = 1.4826 * np.median(np.abs(before_BMG - self._usual_MG), axis=0)
        self._least_MG = np.maximum(CHANGE * np.abs(self._usual_MG), NOISES * noise_MG)
        if self._falls():
            self.since, self.until = at - _LATELY // 2, at

    def _falls(self) -> bool:
        """Whether enough metrics are away from before, most of them below it."""
        assert self._usual_MG is not None
        assert self._least_MG is not None
        newest_BMG = np.array([self._recent[-back] for back in range(1, _LATELY + 1)])
        away_MG = newest_BMG.mean(axis=0) - self._usual_MG
        changed_MG = (np.abs(away_MG) > self._least_MG) & (self._least_MG > 0)
        share_G = changed_MG.mean(axis=0)
        falls_G = (changed_MG & (away_MG < 0)).sum(axis=0) * 2 > changed_MG.sum(axis=0)
        return bool(((share_G >= PAUSED) & falls_G).any())
