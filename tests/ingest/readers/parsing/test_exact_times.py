"""Microseconds of any spelling become exact nanoseconds, by every way of reading them."""

from __future__ import annotations

import random

import pytest

from ingest.readers.parsing.exact_times import microseconds_to_ns


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"4212936054935.310", 4212936054935310),
        (b"1712195495406752.801", 1712195495406752801),  # a float64 would be 51 ns off
        (b"1623142623460016", 1623142623460016000),
        (b"1712195495520871.0", 1712195495520871000),
        (b"-3.5", -3500),
        (b"1e3", 1_000_000),
        (b"0.0005", 0),  # half to even
        (b"0.0015", 2),
        (b'"12.250"', 12250),
    ],
)
def test_microseconds_become_exact_nanoseconds(text: bytes, ns: int) -> None:
    values, readable = microseconds_to_ns([text])
    assert (values.tolist(), readable.tolist()) == ([ns], [True])
    # and the same among numbers of other shapes, which takes another way
    values, readable = microseconds_to_ns([b"1.000", text, b"2"])
    assert values.tolist() == [1000, ns, 2000]
    assert readable.all()


@pytest.mark.parametrize(
    "text",
    [
        b"NaN",
        b"Infinity",
        b'"x"',
        b"null",
        b"1e400",
        b"1e999999999",
        b"9999999999999999",
        b"-9999999999999999",
        b"-9223372036854775.808",  # -2^63 ns, which has no absolute value in int64
        b"-9223372036854775.8080",
        b"\xff",
    ],
)
def test_what_is_no_time_is_marked_unreadable(text: bytes) -> None:
    values, readable = microseconds_to_ns([b"5.000", text])
    assert values.tolist() == [5000, 0]
    assert readable.tolist() == [True, False]


def test_all_ways_of_reading_times_agree() -> None:
    rng = random.Random(1)
    texts = [f"{rng.randrange(10**15)}.{rng.randrange(1000):03d}".encode() for _ in range(200)]
    fast, _ = microseconds_to_ns(texts)
    assert fast.tolist() == [int(text.replace(b".", b"")) for text in texts]
    assert microseconds_to_ns([*texts, b"1.5"])[0].tolist() == [*fast.tolist(), 1500]
    assert microseconds_to_ns([*texts, b"1.00005"])[0].tolist() == [*fast.tolist(), 1000]
    assert microseconds_to_ns([])[0].tolist() == []
