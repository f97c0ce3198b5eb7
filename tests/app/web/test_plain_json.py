"""Strict JSON: what Python reads and cannot write again is refused."""

from __future__ import annotations

import json

import pytest

from app.web.plain_json import loads


@pytest.mark.parametrize(
    "text",
    ["NaN", "[Infinity]", "1e999", "1" * 20, '"\\ud800"', b'"\xff"', "[" * 100_000, "{", ""],
)
def test_what_cannot_be_written_again_is_refused(text: str | bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        loads(text)


@pytest.mark.parametrize(
    "text", ['{"a": [1, -2.5, null, "\\u00e9", true]}', str(2**62), '"\\ud83d\\ude00"']
)
def test_all_else_is_as_json_has_it(text: str) -> None:
    assert loads(text) == json.loads(text)
