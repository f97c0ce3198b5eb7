"""Events of Chrome traces in JSON: one struct for all readers, and what is taken from damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ingest.readers.parsing.json_events import UNDECODABLE, EventStream, tolerant_object

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


def event_stream(read: Callable[[int], bytes], kind: type[AnyEvent]) -> EventStream[AnyEvent]:
    """Events as `kind`; of damaged ones what can be understood, see tolerant_event."""
    decoder = msgspec.json.Decoder(kind)

    def decode_one(text: bytes) -> AnyEvent | None:
        try:
            return decoder.decode(text)
        except UNDECODABLE:
            return tolerant_event(text, kind)

    many = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
    return EventStream(read, many.decode, decode_one)


def tolerant_event(text: bytes, kind: type[AnyEvent]) -> AnyEvent | None:
    """One event from text that is no proper JSON: control characters, NaN, bad UTF-8 are let by.

    None where it is no object; raises one of UNDECODABLE.
    """
    data = tolerant_object(text)
    if data is None:
        return None
    values: dict[str, Any] = {k: str(data[k]) for k in ("ph", "cat", "name") if k in data}
    values |= {k: data[k] for k in ("pid", "tid", "id") if isinstance(data.get(k), int | str)}
    values |= {k: _raw(data[k]) for k in ("ts", "dur", "args") if k in data}
    return kind(**values)


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())
