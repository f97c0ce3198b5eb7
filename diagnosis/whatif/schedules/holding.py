"""How many micro-batches devices hold and may hold, and the memory that these take."""

from __future__ import annotations

import numpy as np

from diagnosis.whatif.schedules.changes import Changes
from diagnosis.whatif.schedules.measured import Measured
from diagnosis.whatif.schedules.memory import fitting, held_by


def most_held_by_device(measured: Measured, changes: Changes) -> tuple[int, ...] | None:
    """Micro-batches that each device may hold; None: all. Raises ValueError where what a limit of
    memory needs was not recorded, or not one fits.
    """
    p, v, m = measured.sizes
    most = None if changes.most_held is None else (changes.most_held,) * p
    if changes.memory_limit is None:
        return most
    if measured.memory is None:
        raise ValueError(
            "how many bytes a micro-batch holds was not recorded, so a limit of memory says "
            "nothing; say how many may be held instead"
        )
    if changes.split:
        raise ValueError("with other stages, what else a device holds is not known; leave out one")
    held_P, share = held_by(measured.order, v), m / (changes.microbatches or m)
    fit = fitting(measured.memory, held_P, share, changes.memory_limit)
    return fit if most is None else tuple(map(min, fit, most))


def too_much(held: tuple[float, ...], measured: Measured, changes: Changes) -> str | None:
    """Why devices hold too many micro-batches; None where they do not."""
    most = most_held_by_device(measured, changes)
    p = measured.sizes[0]
    for device, num in enumerate(held if most is not None else ()):
        if most is not None and num > most[device % p]:
            return (
                f"its device {device} holds {num:.3g} micro-batches; {most[device % p]} may be held"
            )
    return None


def memory_of(
    measured: Measured, held: tuple[float, ...], changes: Changes
) -> tuple[float | None, tuple[float, ...] | None]:
    """memory_bytes and peak_bytes of a prediction."""
    p, v, m = measured.sizes
    memory = measured.memory
    if memory is None or changes.split:
        return None, None
    share = m / (changes.microbatches or m)
    kept = [num * share * float(memory.kept_P[device % p]) for device, num in enumerate(held)]
    if len(held) != p or not measured.order or np.isnan(memory.peak_P).any():
        return max(kept), None
    own_P = held_by(measured.order, v) * memory.kept_P
    return max(kept), tuple((memory.peak_P - own_P + np.array(kept)).tolist())


def memory_assumption(measured: Measured, changes: Changes) -> str:
    """What the memory of a prediction rests on, or why there is none."""
    if measured.memory is None:
        return "How many bytes a micro-batch holds was not recorded."
    if changes.split:
        return "How many bytes a micro-batch holds with other stages is not known."
    return (
        "A stage holds of a micro-batch what its forward left allocated, until its backward is "
        "done; what else a device has allocated at its peak stays the same."
    )
