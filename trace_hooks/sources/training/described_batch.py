"""What a job states of a batch: lengths of its sequences, and how many are of which source."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.mixtures.draws import MOST_SOURCES

LONGEST = 2**31 - 1


@dataclass(frozen=True)
class Described:
    """`lengths`: tokens of each sequence, by micro-batch (UNKNOWN where the job does not state it);
    None not stated. `samples`: number of sequences by source. `planned`: share of each source in
    the mixture that the job means to draw.
    """

    lengths: Mapping[int, tuple[int, ...]] | None = None
    samples: Mapping[str, int] = field(default_factory=dict)
    planned: Mapping[str, float] = field(default_factory=dict)


def described(lengths: Any, source: Any, planned: Any) -> Described:
    """From the arguments of tracer.batch; raises ValueError, one sentence, for what it cannot use.

    A source that is planned and has no sample in the batch counts with 0.
    """
    numbers = None if lengths is None else _by_microbatch(lengths)
    whole = 1 if numbers is None else sum(map(len, numbers.values()))
    samples = _samples(source, whole)
    shares = _shares(planned)
    samples = {**dict.fromkeys(shares, 0), **samples} if samples else samples
    if len(samples) > MOST_SOURCES:
        raise ValueError(f"a batch has {len(samples)} sources; at most {MOST_SOURCES} are recorded")
    return Described(numbers, samples, shares)


def _by_microbatch(lengths: Any) -> dict[int, tuple[int, ...]]:
    """Of one list, or of one for each micro-batch."""
    is_nested = isinstance(lengths, (list, tuple)) and any(map(_is_list, lengths))
    if not is_nested:
        return {UNKNOWN: _lengths(lengths)}
    if not all(map(_is_list, lengths)):
        raise ValueError("lengths are whole numbers, or a list of them for each micro-batch")
    return {number: _lengths(one) for number, one in enumerate(lengths)}


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1


def _lengths(lengths: Any) -> tuple[int, ...]:
    if getattr(lengths, "is_cuda", False):
        raise ValueError("lengths are on a GPU, which would have to be waited for; state a list")
    values = lengths.tolist() if hasattr(lengths, "tolist") else lengths
    try:
        numbers = tuple(int(value) for value in values)
    except (TypeError, ValueError):
        raise ValueError(f"lengths must be whole numbers, not {values!r}"[:200]) from None
    if any(number < 0 for number in numbers):
        raise ValueError(f"lengths must not be negative: {min(numbers)}")
    if any(number > LONGEST for number in numbers):
        raise ValueError(f"a length is at most {LONGEST}: {max(numbers)}")
    return numbers


def _samples(source: Any, whole: int) -> dict[str, int]:
    """Of a name (all samples), names (one each), or numbers by name."""
    if source is None:
        return {}
    if isinstance(source, str):
        return {source: whole}
    if isinstance(source, Mapping):
        return {str(name): int(number) for name, number in source.items()}
    if isinstance(source, Sequence):
        return dict(Counter(map(str, source)))
    raise ValueError(f"source is a name, a list of names or numbers by name, not {source!r}"[:200])


def _shares(planned: Any) -> dict[str, float]:
    if planned is None:
        return {}
    if not isinstance(planned, Mapping):
        raise ValueError(f"planned has a weight for each source, not {planned!r}"[:200])
    try:
        weights = {str(name): float(weight) for name, weight in planned.items()}
    except (TypeError, ValueError):
        raise ValueError(f"planned has a weight that is no number: {planned!r}"[:200]) from None
    total = sum(weights.values())
    if not math.isfinite(total) or total <= 0 or min(weights.values()) < 0:
        raise ValueError("planned needs weights of 0 or more, not all of them 0")
    return {name: weight / total for name, weight in weights.items()}
