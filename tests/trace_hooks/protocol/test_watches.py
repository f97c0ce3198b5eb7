"""Watches are data: what is one, and what is refused with a sentence."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from trace_hooks.protocol.watches import (
    MAX_BYTES_PER_S,
    MAX_TEXT,
    MAX_WATCHES,
    WATCHED,
    Ack,
    Watch,
    read_watch,
    watches_from_text,
    watches_of,
)

FULL = {
    "id": "w1",
    "what": "attention",
    "layers": [0, 3],
    "heads": [1],
    "tokens": [2, 9],
    "rows": 64,
    "every": 10,
    "until": 500,
    "bytes_per_s": 1_000_000,
    "samples": [0, 2],
    "size": 64,
}


@pytest.mark.parametrize("what", WATCHED)
def test_what_is_enough(what: str):
    watch = Watch.from_json({"what": what})
    assert (watch.id, watch.what, watch.layers, watch.every) == (what, what, None, 1)
    assert Watch.from_json(watch.to_json()) == watch


def test_json_there_and_back():
    watch = Watch.from_json(FULL)
    assert watch.to_json() == FULL
    assert Watch.from_json(json.loads(json.dumps(watch.to_json()))) == watch
    changed = FULL | {"layers": "all", "heads": None, "tokens": None, "until": None, "size": None}
    assert Watch.from_json(changed | {"samples": "mean"}).samples is None
    assert Watch.from_json(changed).heads is None


def test_what_is_listed_twice_counts_once():
    assert Watch.from_json(FULL | {"layers": [3, 0, 3]}).layers == (3, 0)


deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]

HOSTILE = {
    "rows": [10**9, 0, -1, 10**400, math.nan, math.inf, 1e3, 1.0, "64", True, None, [], {}],
    "every": [0, -5, True, math.nan, "1", None, 2**60],
    "until": [-1, True, 1.5, "never", [3]],
    "bytes_per_s": [0, -1, MAX_BYTES_PER_S + 1, math.inf, True, None],
    "layers": [
        [],
        [-1],
        [2**40],
        [True],
        [0.0],
        ["0"],
        [None],
        list(range(65)),
        "0",
        3,
        {"0": 1},
        deep,
    ],
    "heads": [[], [-1], [math.nan], list(range(65)), "__import__('os')", 0, [[0]]],
    "tokens": [[5, 2], [1], [1, 2, 3], [0, 10**12], [True, 2], "0:10", 5, [None, 3]],
    "samples": [[], [-1], list(range(17)), "all", None, 0, [True]],
    "size": [0, 10**6, True, 32.0, "64", math.nan],
    "id": ["", "../../etc/passwd", "a b", "x" * 65, "<script>", 5, None, ["w"], "\n", "é"],
    "what": ["", "everything", None, 1, ["mlp"], "eval('1')", {"mlp": 1}],
}


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key, values in HOSTILE.items() for value in values],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_anything_else_is_refused_with_one_short_sentence(key: str, value: Any):
    with pytest.raises(ValueError, match=key) as raised:
        Watch.from_json(FULL | {key: value})
    text = str(raised.value)
    assert len(text) < 400
    assert "\n" not in text
    ack = read_watch(FULL | {key: value})
    assert isinstance(ack, Ack)
    assert not ack.ok
    assert ack.text == text


@pytest.mark.parametrize(
    "value", [None, [], "mlp", 5, True, deep, [FULL]], ids=lambda v: type(v).__name__
)
def test_what_is_no_object_is_no_watch(value: Any):
    with pytest.raises(ValueError, match="a watch is an object"):
        Watch.from_json(value)


@pytest.mark.parametrize("key", ["__class__", "code", "Layers", "", "x" * 10_000, 5])
def test_unknown_keys_are_refused(key: Any):
    with pytest.raises(ValueError, match="a watch has no") as raised:
        Watch.from_json(FULL | {key: "__import__('os').system('true')"})
    assert len(str(raised.value)) < 400


def test_a_list_of_watches():
    three = [FULL | {"id": f"w{n}"} for n in range(3)]
    assert [watch.id for watch in watches_of(three)] == ["w0", "w1", "w2"]
    assert watches_of([]) == []
    for wrong in (three[0], "[]", None, [FULL] * (MAX_WATCHES + 1)):
        with pytest.raises(ValueError, match="a list of at most"):
            watches_of(wrong)
    with pytest.raises(ValueError, match='two watches have the id "w1"'):
        watches_of([FULL, FULL])


def test_watches_from_text():
    assert watches_from_text(json.dumps([FULL])) == [Watch.from_json(FULL)]
    assert watches_from_text(json.dumps(FULL).encode()) == [Watch.from_json(FULL)]
    for wrong in ("", "{", b"\xff\xfe", "[" * 50_000, "NaN", '{"what": NaN}', "[1e999]", "null"):
        with pytest.raises(ValueError, match="watch"):
            watches_from_text(wrong)
    with pytest.raises(ValueError, match="bytes"):
        watches_from_text(" " * (MAX_TEXT + 1))


def test_an_answer_is_a_message():
    assert Ack("w1", False, "no layer 9").to_json() == {
        "type": "ack",
        "id": "w1",
        "ok": False,
        "text": "no layer 9",
    }
