"""Single draws from ranges."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from sample_traces.generate.labelled.worlds import Range

Random = np.random.Generator
_T = TypeVar("_T")


def even(random: Random, of: Range) -> float:
    """A value between both."""
    return float(random.uniform(*of))


def log_even(random: Random, of: Range) -> float:
    """The same, even in the logarithm."""
    return math.exp(random.uniform(math.log(of[0]), math.log(of[1])))


def one_of(random: Random, choices: tuple[_T, ...]) -> _T:
    """One of the choices."""
    return choices[int(random.integers(len(choices)))]
