"""Microseconds as text, exactly to whole nanoseconds.

Unix time in microseconds with three decimals has 19 digits; a float64 keeps 15 to 16 of them, so
a time that went through a float is wrong by up to 250 ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

INT64_MAX = 2**63 - 1
_MOST_CHARACTERS = 22
"""Sign, 16 digits, dot, three decimals and the comma: what a time of this century can have."""


def microseconds_to_ns(
    numbers: Sequence[bytes | memoryview],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Nanoseconds of JSON numbers in microseconds, and which of them could be read.

    Quoted numbers count as numbers; more than three decimals are rounded half to even. NaN,
    Infinity, words and what does not fit into int64 are not readable and stand as 0.
    """
    values = _as_kineto_writes(b",".join(numbers), len(numbers))
    if values is not None:
        return values, np.ones(len(numbers), np.bool_)
    texts = [bytes(number) for number in numbers]
    try:
        decimals = pa.array(texts, pa.binary()).cast(pa.string()).cast(pa.decimal128(19, 3))
    except pa.ArrowInvalid:
        return _one_by_one(texts)
    # a decimal128(19, 3) is the number of nanoseconds as a 128-bit little-endian integer
    words = np.frombuffer(decimals.buffers()[1], "<i8").reshape(-1, 2)[: len(texts)]
    low, high = words[:, 0], words[:, 1]
    # -2^63 fits into int64 and its absolute value does not: no time has it
    if bool((high != low >> 63).any()) or low.min(initial=0) < -INT64_MAX:
        return _one_by_one(texts)
    return low.copy(), np.ones(len(texts), np.bool_)


def _as_kineto_writes(joined: bytes, count: int) -> npt.NDArray[np.int64] | None:
    """Fast way for numbers that all have three decimals, or all none; None for any other."""
    if not count:
        return np.empty(0, np.int64)
    characters = np.frombuffer(joined, np.uint8)
    if characters.min() < ord(",") or characters.max() > ord("9"):
        return None
    dots = np.flatnonzero(characters == ord("."))
    ends = np.append(np.flatnonzero(characters == ord(",")), len(characters))
    if len(ends) != count or np.diff(ends, prepend=-1).max() > _MOST_CHARACTERS:
        return None
    if not len(dots):
        values = np.fromstring(joined, np.int64, sep=",")
        return values * 1000 if _are_below(values, INT64_MAX // 1000 + 1) else None
    if len(dots) != count or not (ends - dots == 4).all():
        return None
    values = np.fromstring(joined.replace(b".", b""), np.int64, sep=",")
    # what does not fit into int64 is read as its limits
    return values if _are_below(values, INT64_MAX) else None


def _are_below(values: npt.NDArray[np.int64], most: int) -> bool:
    """Whether all are between -most and most: np.abs would leave -2^63 negative."""
    return bool(-most < values.min() and values.max() < most)


def _one_by_one(
    texts: Sequence[bytes],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    numbers = [_nanoseconds(text) for text in texts]
    values = np.array([0 if number is None else number for number in numbers], np.int64)
    return values, np.array([number is not None for number in numbers], np.bool_)


def _nanoseconds(text: bytes) -> int | None:
    try:
        exact = Decimal(text.decode("ascii").strip('" ')) * 1000
        # a huge exponent would make an integer of as many digits
        if not exact.is_finite() or abs(exact) > INT64_MAX:
            return None
        return int(exact.to_integral_value(ROUND_HALF_EVEN))
    except (ArithmeticError, UnicodeDecodeError):  # Overflow of an exponent, InvalidOperation
        return None
