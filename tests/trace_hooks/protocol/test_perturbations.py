"""Perturbations are data: what is one, and what is refused with a sentence."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from trace_hooks.protocol.perturbations import KINDS, STRONG, Perturbation

LEAST = {"kind": "gaussian", "target": "weights", "layer": 3, "steps": [5, 9], "strength": 0.1}
HEAD = {"kind": "ablate", "target": "activations", "module": "attention", "layer": 0, "head": 2}


def test_least():
    perturbation = Perturbation.from_json(LEAST)
    assert (perturbation.id, perturbation.module, perturbation.extent, perturbation.seed) == (
        "gaussian",
        None,
        None,
        0,
    )
    assert perturbation.text == "gaussian 0.1 on weights of layer 3, steps 5 to 9"
    one_step = Perturbation.from_json(LEAST | {"steps": [5, 5]})
    assert one_step.text == "gaussian 0.1 on weights of layer 3, step 5"


@pytest.mark.parametrize("kind", KINDS)
def test_json_there_and_back(kind: str):
    value = HEAD | {"kind": kind, "steps": [0, 0], "id": "p1", "seed": 7}
    value |= {"strength": 2} if kind in STRONG else {}
    perturbation = Perturbation.from_json(value)
    assert Perturbation.from_json(json.loads(json.dumps(perturbation.to_json()))) == perturbation
    assert {key: perturbation.to_json()[key] for key in value} == value


def test_one_bit_by_default():
    value = LEAST | {"kind": "bit_flip", "bit": 30, "strength": None}
    assert Perturbation.from_json(value).extent == 1
    assert Perturbation.from_json(value | {"extent": None}).extent is None


deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]

HOSTILE = {
    "kind": ["", "gauss", "__import__('os').system('true')", None, 3, ["gaussian"], {}],
    "target": ["", "optimizer", None, 1, "weights; DROP TABLE marks"],
    "module": ["norm", 1, [], "../mlp"],
    "layer": [-1, 10**9, 10**400, 1.0, True, None, "3", math.nan, [3]],
    "head": [-1, 10**9, 0.0, True, "0"],
    "strength": [math.nan, math.inf, -math.inf, 1e7, 10**400, "0.1", True, [1], None],
    "extent": [0, -1, 10**9, 1.5, True, math.nan, "all"],
    "bit": [-1, 64, 10**9, True, 1.0],
    "steps": [
        None,
        5,
        [],
        [5],
        [5, 6, 7],
        [9, 5],
        [0, 10**9],
        [-1, 5],
        [0, 10_000],
        [5, math.inf],
        [True, 5],
        ["5", "9"],
        [10**400, 10**400],
        {"0": 5, "1": 9},
        deep,
    ],
    "id": ["", "a b", "../x", "x" * 65, 5, None, "<script>"],
    "seed": [-1, 2**32, 1.5, None, True, "0"],
    "code": ["print(1)"],
    "x" * 100_000: [1],
}


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key, values in HOSTILE.items() for value in values],
    ids=lambda value: repr(value)[:30] if value is not deep else "deep",
)
def test_hostile_members_are_refused_with_one_sentence(key: str, value: Any):
    with pytest.raises(ValueError, match="perturbation") as caught:
        Perturbation.from_json(LEAST | {key: value})
    text = str(caught.value)
    assert len(text) < 300
    assert "\n" not in text


@pytest.mark.parametrize("value", [None, [], "gaussian", 3, math.nan, [LEAST]])
def test_what_is_no_object_is_refused(value: Any):
    with pytest.raises(ValueError, match="is an object"):
        Perturbation.from_json(value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"kind": "ablate"}, "ablate has no strength"),
        ({"strength": None}, "gaussian needs strength"),
        ({"bit": 3}, "has no bit"),
        ({"head": 2}, "needs target activations and module attention"),
        ({"target": "residual", "module": "mlp"}, "lies between layers and has no module"),
        ({"kind": "flat_attention", "strength": None}, "flat_attention needs a head"),
    ],
)
def test_members_that_do_not_go_together_are_refused(more: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        Perturbation.from_json(LEAST | more)


@pytest.mark.parametrize("key", ["kind", "target", "layer", "steps"])
def test_what_is_missing_is_named(key: str):
    with pytest.raises(ValueError, match=f"needs {key}"):
        Perturbation.from_json({name: one for name, one in LEAST.items() if name != key})
