"""A request to capture content of a model: a watch, its limits, and a rank's answer to it.

A watch is data, never code: a JSON object from the user's own code, from a file, or from a browser
by way of the server. Page, server and rank check it with these functions. Only a rank knows which
layers and heads exist; sources/inspection/watch_list.py checks that. Pure: no torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from trace_hooks.protocol.validation import an_id, quoted, whole

WATCHED = ("attention", "qkv", "mlp", "residual", "logits", "gradients", "weights")
"""What a watch may capture."""

MAX_WATCHES = 16
MAX_LISTED = 64
"""Layers, and heads, that one watch lists at most; "all" has no such limit."""

MAX_SAMPLES = 16
MAX_ROWS = 4_096
MAX_SIZE = 1_024
MAX_BYTES_PER_S = 64 << 20
MAX_INDEX = 1 << 20
"""Above any layer, head, token or sequence of a batch."""

MAX_STEPS = 1 << 53
MAX_TEXT = 1 << 16
"""Bytes of JSON that name watches."""

_id = partial(an_id, "a watch")
_whole = partial(whole, "a watch")


@dataclass(frozen=True)
class Watch:
    """One request to capture content; made by `from_json`, which checks it.

    `layers`, `heads`: of the whole model, None all. `tokens`: first and last row, None all.
    `rows`: rows of a frame at most. `every`: steps from one that is captured to the next. `until`:
    last step, None without end. `samples`: sequences of the batch, None their mean. `size`: rows
    and columns of a frame at most, reached by taking means; None as they are.
    """

    id: str
    what: str
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    tokens: tuple[int, int] | None = None
    rows: int = 512
    every: int = 1
    until: int | None = None
    bytes_per_s: int = 4 << 20
    samples: tuple[int, ...] | None = (0,)
    size: int | None = None

    @classmethod
    def from_json(cls, value: Any) -> Watch:
        """Watch of a JSON object; only `what` is required. Raises ValueError, one sentence."""
        if not isinstance(value, Mapping):
            raise ValueError(f'a watch is an object such as {{"what": "mlp"}}, not {quoted(value)}')
        unknown = [key for key in value if key not in _READ]
        if unknown:
            raise ValueError(f"a watch has no {quoted(unknown[0])}; it has {', '.join(_READ)}")
        what = value.get("what")
        if not isinstance(what, str) or what not in WATCHED:
            raise ValueError(f"a watch's what is {quoted(what)}; use one of {', '.join(WATCHED)}")
        values: dict[str, Any] = {"id": what}
        values |= {key: _READ[key](key, given) for key, given in value.items()}
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Plain dict; inverse of from_json."""
        return {
            "id": self.id,
            "what": self.what,
            "layers": "all" if self.layers is None else list(self.layers),
            "heads": "all" if self.heads is None else list(self.heads),
            "tokens": None if self.tokens is None else list(self.tokens),
            "rows": self.rows,
            "every": self.every,
            "until": self.until,
            "bytes_per_s": self.bytes_per_s,
            "samples": "mean" if self.samples is None else list(self.samples),
            "size": self.size,
        }


@dataclass(frozen=True)
class Ack:
    """A rank's answer to a request: whether it takes it, and one sentence. `id`: of the request."""

    id: str
    ok: bool
    text: str

    def to_json(self) -> dict[str, Any]:
        """The message a rank sends to the server."""
        return {"type": "ack", "id": self.id, "ok": self.ok, "text": self.text}


def read_watch(value: Any) -> Watch | Ack:
    """The watch in a JSON object, or the answer that refuses it."""
    try:
        return Watch.from_json(value)
    except ValueError as error:
        name = value.get("id") if isinstance(value, Mapping) else None
        return Ack(name[:64] if isinstance(name, str) else "", False, str(error))


def watches_of(value: Any) -> list[Watch]:
    """Watches of a JSON list; raises ValueError, one sentence."""
    if not isinstance(value, list) or len(value) > MAX_WATCHES:
        raise ValueError(f"give a list of at most {MAX_WATCHES} watches, not {quoted(value)}")
    watches = [Watch.from_json(watch_id) for watch_id in value]
    ids = [watch.id for watch in watches]
    twice = next((watch_id for watch_id in ids if ids.count(watch_id) > 1), None)
    if twice is not None:
        raise ValueError(f'two watches have the id "{twice}"; give each an id of its own')
    return watches


def watches_from_text(text: str | bytes) -> list[Watch]:
    """Watches of JSON text (of a file, of a message): a list, or one watch. Raises ValueError."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"the watches have {len(text)} bytes; keep them below {MAX_TEXT}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the watches are not JSON; give a list of objects") from None
    return watches_of([value] if isinstance(value, dict) else value)


def _listed(key: str, value: Any, most: int) -> tuple[int, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise ValueError(
            f"a watch's {key} is {quoted(value)}; give a list of 1 to {most} whole numbers"
        )
    return tuple(dict.fromkeys(_whole(key, number, 0, MAX_INDEX) for number in value))


def _what(key: str, value: str) -> str:
    return value  # read before the others


def _chosen(key: str, value: Any) -> tuple[int, ...] | None:
    return None if value is None or value == "all" else _listed(key, value, MAX_LISTED)


def _samples(key: str, value: Any) -> tuple[int, ...] | None:
    return None if value == "mean" else _listed(key, value, MAX_SAMPLES)


def _tokens(key: str, value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"a watch's tokens are {quoted(value)}; give [first, last] or null")
    first, last = (_whole(key, row, 0, MAX_INDEX) for row in value)
    if first > last:
        raise ValueError(f"a watch's tokens are {quoted(value)}; the first comes after the last")
    return first, last


def _until(key: str, value: Any) -> int | None:
    return None if value is None else _whole(key, value, 0, MAX_STEPS)


def _size(key: str, value: Any) -> int | None:
    return None if value is None else _whole(key, value, 1, MAX_SIZE)


_READ: dict[str, Callable[[str, Any], Any]] = {
    "id": _id,
    "what": _what,
    "layers": _chosen,
    "heads": _chosen,
    "tokens": _tokens,
    "rows": lambda key, value: _whole(key, value, 1, MAX_ROWS),
    "every": lambda key, value: _whole(key, value, 1, MAX_STEPS),
    "until": _until,
    "bytes_per_s": lambda key, value: _whole(key, value, 1, MAX_BYTES_PER_S),
    "samples": _samples,
    "size": _size,
}
"""How each member is checked: (its name, its JSON value) -> the field's value."""
