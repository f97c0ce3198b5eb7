"""A request to change a model while it trains: a perturbation, and its limits.

A perturbation is data, never code: a JSON object from the user's own code, or from a browser by way
of the server. Page, server and rank check it with these functions. Only a rank knows which layers
and heads exist; sources/perturbation/perturbation_list.py checks that. Pure: no torch.
The kinds are those of MegaScope: noise as in its code, the others as in its paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from trace_hooks.protocol.validation import an_id, members, quoted, whole_from
from trace_hooks.protocol.watches import MAX_INDEX, MAX_STEPS

KINDS = ("gaussian", "uniform", "offset", "bit_flip", "ablate", "flat_attention")
"""x + N(0, strength^2); x * U(1 - strength, 1 + strength); x + strength; one flipped bit of x; 0; a
head that gives every key it may see the same weight."""

TARGETS = ("weights", "activations", "residual")
"""Parameters of a layer; outputs of its attention and MLP; its output to the next layer."""

MODULES = ("attention", "mlp")

PERTURB = "perturb"
"""Name of the server's command."""

MARK = "perturbation"
"""Kind of the marks of begin and end; their args have `event` (begin, end) and, at the end,
`why`, `num_steps` and `num_tensors` (how often a tensor was changed), besides the perturbation's
fields."""

MAX_PERTURBATIONS = 8
MAX_WINDOW = 10_000
"""Most steps of one perturbation, so that a forgotten one ends."""

MAX_EXTENT = 1 << 24
MAX_STRENGTH = 1e6
MAX_SEED = (1 << 32) - 1
NUM_BITS = 64
STRONG = ("gaussian", "uniform", "offset")
"""Kinds that have a strength."""

_id = partial(an_id, "a perturbation")
_whole = partial(whole_from, "a perturbation")


@dataclass(frozen=True)
class Perturbation:
    """One requested change; made by `from_json`, which checks it.

    `layer`, `head`: of the whole model; a head None means all. `module`: attention or mlp, None
    both. `extent`: values changed in each tensor at most, evenly spread from a random first one,
    None all. `bit`: the one flipped, 0 the lowest; None a random one of each tensor. `steps`: first
    and last one. The same `seed` gives the same numbers again.
    """

    id: str
    kind: str
    target: str
    layer: int
    steps: tuple[int, int]
    module: str | None = None
    head: int | None = None
    strength: float | None = None
    extent: int | None = None
    bit: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.kind in STRONG) != (self.strength is not None):
            needs = "needs" if self.kind in STRONG else "has no"
            raise ValueError(f"a perturbation of kind {self.kind} {needs} strength")
        if self.bit is not None and self.kind != "bit_flip":
            raise ValueError(f"a perturbation of kind {self.kind} has no bit; only bit_flip has")
        if self.target == "residual" and self.module is not None:
            raise ValueError(
                "target residual lies between layers and has no module; leave module out"
            )
        if self.head is not None and (self.target != "activations" or self.module != "attention"):
            raise ValueError(
                "a perturbation of a head needs target activations and module attention"
            )
        if self.kind == "flat_attention" and (self.head is None or self.extent is not None):
            raise ValueError("a perturbation of kind flat_attention needs a head, and no extent")

    @classmethod
    def from_json(cls, value: Any) -> Perturbation:
        """Perturbation of a JSON object. Raises ValueError, one sentence."""
        needs = ("kind", "target", "layer", "steps")
        values = members("a perturbation", value, _READ, needs)
        values.setdefault("id", values["kind"])
        if values["kind"] == "bit_flip":
            values.setdefault("extent", 1)
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Plain dict; inverse of from_json."""
        return {
            "id": self.id,
            "kind": self.kind,
            "target": self.target,
            "layer": self.layer,
            "steps": list(self.steps),
            "module": self.module,
            "head": self.head,
            "strength": self.strength,
            "extent": self.extent,
            "bit": self.bit,
            "seed": self.seed,
        }

    @property
    def text(self) -> str:
        """Description: "gaussian 0.1 on weights of layer 3, mlp, steps 5 to 9"."""
        strength = "" if self.strength is None else f" {self.strength:g}"
        parts = [f"{self.kind}{strength} on {self.target} of layer {self.layer}"]
        if self.module is not None:
            parts.append(self.module)
        if self.head is not None:
            parts.append(f"head {self.head}")
        first, last = self.steps
        parts.append(f"step {first}" if first == last else f"steps {first} to {last}")
        return ", ".join(parts)


def of_mark(args: Mapping[str, Any]) -> Perturbation:
    """The perturbation in a mark's args. Raises ValueError."""
    return Perturbation.from_json({name: args[name] for name in _READ if name in args})


def requested(value: Any) -> Perturbation | str:
    """The perturbation that a JSON object requests, or the id of the one to end: {"end": id}.

    Raises ValueError, one sentence.
    """
    if isinstance(value, Mapping) and set(value) == {"end"}:
        return _id("id", value["end"])
    return Perturbation.from_json(value)


def _one_of(choices: tuple[str, ...], nothing: bool = False) -> Callable[[str, Any], str | None]:
    def read(key: str, value: Any) -> str | None:
        if nothing and value is None:
            return None
        if not isinstance(value, str) or value not in choices:
            raise ValueError(
                f"a perturbation's {key} is {quoted(value)}; use one of {', '.join(choices)}"
            )
        return value

    return read


def _strength(key: str, value: Any) -> float | None:
    if value is None:
        return None
    plain = type(value) is float or (type(value) is int and abs(value) <= MAX_STRENGTH)
    if not plain or not math.isfinite(value) or abs(value) > MAX_STRENGTH:
        raise ValueError(
            f"a perturbation's {key} is {quoted(value)}; give a number up to {MAX_STRENGTH:g}"
        )
    return float(value)


def _steps(key: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"a perturbation's steps are {quoted(value)}; give [first, last]")
    for step in value:
        if type(step) is not int or not 0 <= step <= MAX_STEPS:
            raise ValueError(f"a perturbation's steps are {quoted(value)}; give whole numbers")
    first, last = value
    if not 0 <= last - first < MAX_WINDOW:
        raise ValueError(
            f"a perturbation's steps are {quoted(value)}; give the first and the last of at most "
            f"{MAX_WINDOW} steps"
        )
    return first, last


_READ: dict[str, Callable[[str, Any], Any]] = {
    "id": _id,
    "kind": _one_of(KINDS),
    "target": _one_of(TARGETS),
    "layer": _whole(0, MAX_INDEX),
    "steps": _steps,
    "module": _one_of(MODULES, nothing=True),
    "head": _whole(0, MAX_INDEX, nothing=True),
    "strength": _strength,
    "extent": _whole(1, MAX_EXTENT, nothing=True),
    "bit": _whole(0, NUM_BITS - 1, nothing=True),
    "seed": _whole(0, MAX_SEED),
}
"""How each member is checked: (its name, its JSON value) -> the field's value."""
