"""Frames: numbers in 1 or 2 bytes, the wire format, and what is none."""

from __future__ import annotations

import dataclasses
import json
import random
import struct
from typing import Any

import numpy as np
import pytest

from trace_hooks.protocol.frames import MAGIC, MAX_FRAME_BYTES, MAX_HEADER, Frame, decode, stored
from trace_hooks.schema import TABLES


def frame(values: Any = None, dtype: str = "float16", **more: Any) -> Frame:
    values = np.arange(6, dtype=np.float32).reshape(2, 3) if values is None else values
    known = {
        "step": 3,
        "ts_ns": 1_700_000_000_000_000_000,
        "watch": "w1",
        "what": "attention",
        "layer": 2,
        "name": "blocks.2.attention",
        "head": 5,
        "shard": "tp=1",
        "sample": 0,
    }
    return Frame(**(known | more), shape=values.shape, **stored(values, dtype).columns())


def test_a_frame_has_the_columns_of_its_table():
    fields = {field.name for field in dataclasses.fields(Frame)}
    assert fields == {column.name for column in TABLES["frames"].columns}


@pytest.mark.parametrize("peak", [1.0, 1e-9, 3e-38, 1e-44, 65_504.0, 1e5, 3e38])
def test_float16_keeps_the_relative_error_of_any_magnitude(peak: float):
    values = np.random.default_rng(1).normal(size=4_000).astype(np.float32)
    values = (values / np.abs(values).max() * np.float32(peak)).astype(np.float32)
    found = frame(values).values()
    assert found.dtype == np.float32
    large = np.abs(values) > np.float32(peak) * np.float32(2.0**-28)
    error = np.abs(found[large].astype(np.float64) - values[large])
    floor = 2 * np.finfo(np.float32).smallest_subnormal
    assert np.all(error <= np.abs(values[large]) * 2.0**-11 + floor)


def test_what_is_not_finite_stays_so():
    values = np.array([1.0, np.nan, np.inf, -np.inf, 0.0], dtype=np.float32)
    for dtype in ("float16", "uint8"):
        one = frame(values, dtype)
        assert one.dtype == "float16"
        np.testing.assert_array_equal(one.values(), values)
    np.testing.assert_array_equal(frame(values[1:2]).values(), values[1:2])


def test_bytes_divide_the_range():
    values = np.random.default_rng(2).uniform(-3, 5, (8, 8)).astype(np.float32)
    one = frame(values, "uint8")
    assert (one.dtype, len(one.data)) == ("uint8", 64)
    assert np.abs(one.values() - values).max() <= one.scale / 2 + 1e-6
    np.testing.assert_allclose(frame(np.full((3, 3), 7.5, np.float32), "uint8").values(), 7.5)


def test_there_and_back():
    for one in (
        frame(),
        frame(labels='["a", "b"]', attempt=0, rank=7, cost_ns=5, name='<b>"é'),
        frame(dtype="uint8"),
    ):
        encoded = one.encode()
        assert encoded[:4] == MAGIC
        (size,) = struct.unpack_from("<I", encoded, 4)
        assert (8 + size) % 8 == 0
        back = decode(encoded)
        assert dataclasses.asdict(back) == dataclasses.asdict(one)
        assert decode(memoryview(encoded)).data == one.data


def changed(**more: Any) -> bytes:
    """A frame with other values in its header."""
    header = frame().header() | more
    text = json.dumps(header).encode()
    return MAGIC + struct.pack("<I", len(text)) + text + frame().data


HOSTILE = {
    "shape": [
        [],
        [10**12, 10**12],
        [-2, -3],
        [0],
        [2.0, 3.0],
        [True, 6],
        [1] * 5,
        "23",
        None,
        [2, 4],
        {"a": 1},
    ],
    "dtype": ["float64", "object", "|O", "O", "", None, ["float16"]],
    "scale": [None, "1", True, [], 1e308, 10**400],
    "zero": [None, "nan", [], 10**400],
    "layer": [None, 1.5, "1", True, 2**70, 10**400],
    "row_every": [None, 0.5, "x"],
    "what": ["everything", None, 5, "x" * 10**5],
    "name": [None, 5, "x" * 10**5, ["a"]],
    "watch": [None, {}],
    "labels": [5, ["a"], "x" * (MAX_HEADER)],
}


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key, values in HOSTILE.items() for value in values],
    ids=lambda value: value if isinstance(value, str) and len(value) < 9 else type(value).__name__,
)
def test_a_header_that_lies_is_refused(key: str, value: Any):
    with pytest.raises(ValueError, match="frame") as raised:
        decode(changed(**{key: value}))
    assert len(str(raised.value)) < 300


def test_what_is_no_frame_is_refused():
    good = frame().encode()
    missing = {name: value for name, value in frame().header().items() if name != "scale"}
    for header in (missing, frame().header() | {"__class__": 1}, [], 5, None):
        text = json.dumps(header).encode()
        with pytest.raises(ValueError, match="header"):
            decode(MAGIC + struct.pack("<I", len(text)) + text)
    for wrong in (
        b"",
        b"RSF1",
        b"RSF2" + good[4:],
        good[:40],
        good[:-1],
        good + b"x",
        MAGIC + struct.pack("<I", 2**32 - 1) + good[8:],
    ):
        with pytest.raises(ValueError, match="frame"):
            decode(wrong)
    for text in (b"NaN", b'{"scale": NaN}', b"[" * 100_000, b"\xff\xfe", b'{"a":'):
        with pytest.raises(ValueError, match="header is not JSON"):
            decode(MAGIC + struct.pack("<I", len(text)) + text)
    with pytest.raises(ValueError, match="is the most"):
        decode(bytes(MAX_FRAME_BYTES + 1))


def test_damaged_frames_are_refused_or_read():
    chance = random.Random(4)
    good = frame(dtype="uint8").encode()
    refused = 0
    for _ in range(2_000):
        damaged = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            assert decode(bytes(damaged)).values().shape is not None
        except ValueError:
            refused += 1
    assert refused > 1_000
