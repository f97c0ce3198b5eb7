"""Events of Chrome traces in JSON: one struct for all readers, and what is taken from damage."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

MAX_NS = 2**61
"""Times, durations and the base beyond it (73 years) are damage; sums of them fit into int64."""
MAX_COUNT = 2**61


class Event(msgspec.Struct, gc=False):
    """One element of traceEvents; times and args stay text until they are needed."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    id: int | float | str | None = None
    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"0.000")
    args: msgspec.Raw = msgspec.Raw(b"")


AnyEvent = TypeVar("AnyEvent", bound=Event)

_EVENTS = msgspec.json.Decoder(list[Event])
_ONE_EVENT = msgspec.json.Decoder(Event)


def decode_events(text: bytes) -> list[Event]:
    """Events of a JSON list; raises ValueError where one is not as expected."""
    try:
        return _EVENTS.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_event(text: bytes) -> Event | None:
    """One event, as far as it can be understood: control characters, NaN, bad UTF-8 are let by."""
    try:
        return _ONE_EVENT.decode(text)
    except (ValueError, RecursionError):
        return tolerant_event(text, Event)


def tolerant_event(text: bytes, kind: type[AnyEvent]) -> AnyEvent | None:
    """One event of the given class from text that is no proper JSON."""
    try:
        data = json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    texts = {key: str(data[key]) for key in ("ph", "cat", "name") if key in data}
    places: dict[str, Any] = {
        key: data[key] for key in ("pid", "tid", "id") if isinstance(data.get(key), int | str)
    }
    raws = {key: _raw(data[key]) for key in ("ts", "dur", "args") if key in data}
    values: dict[str, Any] = {**texts, **places, **raws}
    return kind(**values)


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())
