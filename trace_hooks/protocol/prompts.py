"""A request to the model in training to continue a text: a prompt, and its limits.

A prompt is data, never code: a JSON object from a browser by way of the server, which both check
and each rank checks again. The server sends two messages to the ranks: first the prompt, with the
step after which it runs; then, once every rank has taken it, to go. Pure: no torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from trace_hooks.protocol.validation import an_id, members, quoted, whole_from
from trace_hooks.protocol.watches import MAX_INDEX, MAX_STEPS

PROMPT = "prompt"
"""Name of the command, kind of its marks, and beginning of the watch id of its frames."""

MAX_TOKENS = 64
"""Most new tokens of one prompt."""
MAX_PROMPT = 512
"""Most tokens of the prompt itself."""
MAX_TEXT = 20_000
MAX_LAYERS = 16
MAX_TEMPERATURE = 5.0
MAX_SEED = (1 << 32) - 1

_id = partial(an_id, "a prompt")
_whole = partial(whole_from, "a prompt")


@dataclass(frozen=True)
class Prompt:
    """One prompt; made by `from_json`, which checks it.

    `tokens`: new ones at most. `temperature`: 0 takes the most probable token; else one is drawn,
    the same for the same `seed`. `layers`: those whose attention is shown, counted over the whole
    model. `step`: the one after which it runs; None until the server has chosen it.
    """

    id: str
    text: str
    tokens: int = 16
    temperature: float = 0.0
    seed: int = 0
    layers: tuple[int, ...] = ()
    step: int | None = None

    @classmethod
    def from_json(cls, value: Any) -> Prompt:
        """Prompt of a JSON object. Raises ValueError, one sentence."""
        return cls(**members("a prompt", value, _READ, needs=("id", "text")))

    def to_json(self) -> dict[str, Any]:
        """Plain dict; inverse of from_json."""
        return asdict(self) | {"layers": list(self.layers)}


@dataclass(frozen=True)
class Word:
    """The server's second message about a prompt that ranks have taken: run it, or drop it."""

    id: str
    goes: bool

    def to_json(self) -> dict[str, str]:
        """Plain dict, as `server_request` reads it."""
        return {"go" if self.goes else "drop": self.id}


def server_request(value: Any) -> Prompt | Word:
    """A message of the server: a prompt with its step, {"go": id} or {"drop": id}.

    Raises ValueError, one sentence.
    """
    if isinstance(value, Mapping) and len(value) == 1:
        for name, goes in (("go", True), ("drop", False)):
            if name in value:
                return Word(_id("id", value[name]), goes)
    prompt = Prompt.from_json(value)
    if prompt.step is None:
        raise ValueError("a prompt needs the step after which it runs")
    return prompt


def read_ids(text: str) -> list[int]:
    """Token ids written as numbers, for jobs that name no tokenizer. Raises ValueError."""
    words = text.replace(",", " ").split()
    if not all(re.fullmatch(r"[0-9]{1,9}", word) for word in words):
        raise ValueError("this job has given no tokenizer; type token ids, such as 5 17 42")
    return [int(word) for word in words]


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("the prompt is empty; type something")
    if len(value) > MAX_TEXT:
        raise ValueError(f"the prompt has {len(value)} characters; at most {MAX_TEXT} are allowed")
    return value


def _temperature(key: str, value: Any) -> float:
    plain = type(value) is float or (type(value) is int and 0 <= value <= MAX_TEMPERATURE)
    if not plain or not math.isfinite(value) or not 0 <= value <= MAX_TEMPERATURE:
        raise ValueError(
            f"a prompt's {key} is {quoted(value)}; give a number from 0 to {MAX_TEMPERATURE:g}"
        )
    return float(value)


def _layers(key: str, value: Any) -> tuple[int, ...]:
    each = value if isinstance(value, list) else [None]
    if len(each) > MAX_LAYERS or any(type(x) is not int or not 0 <= x <= MAX_INDEX for x in each):
        raise ValueError(
            f"a prompt's layers are {quoted(value)}; list the numbers of {MAX_LAYERS} at most"
        )
    return tuple(dict.fromkeys(each))


_READ: dict[str, Callable[[str, Any], Any]] = {
    "id": _id,
    "text": _text,
    "tokens": _whole(1, MAX_TOKENS),
    "temperature": _temperature,
    "seed": _whole(0, MAX_SEED),
    "layers": _layers,
    "step": _whole(0, MAX_STEPS, nothing=True),
}
"""How each member is checked: (its name, its JSON value) -> the field's value."""
