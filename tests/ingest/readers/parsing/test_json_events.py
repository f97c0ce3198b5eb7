"""Lists of events of any length, cut anywhere, damaged or never closed."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from ingest.readers.parsing import json_events
from ingest.readers.parsing.json_events import EventStream


def _stream(text: bytes) -> EventStream[dict[str, Any]]:
    def decode_one(event: bytes) -> dict[str, Any] | None:
        try:
            value = json.loads(event)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def decode_many(events: bytes) -> list[dict[str, Any]]:
        values = json.loads(events)
        if not all(isinstance(value, dict) for value in values):
            raise ValueError
        return values

    return EventStream(io.BytesIO(text).read, decode_many, decode_one)


def _all(stream: EventStream[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for batch in stream for event in batch]


NASTY = [
    {"name": "}, {", "args": {"a": [{"x": 1}, {"y": 2}]}},
    {"name": 'quote " and backslash \\', "args": {}},
    {"name": "\\"},
    {"name": "lambda()#1}>::operator()(int), {", "n": 10159970886766084423},
    {},
]


@pytest.mark.parametrize("piece_bytes", [1, 7, 64, 1 << 22])
@pytest.mark.parametrize("indent", [None, 2])
def test_events_are_split_wherever_the_pieces_end(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int, indent: int | None
) -> None:
    monkeypatch.setattr(json_events, "PIECE_BYTES", piece_bytes)
    events = [{**event, "number": i} for i, event in enumerate(NASTY * 5)]
    document = {"first": [{}, {"traceEvents": 1}], "traceEvents": events, "last": {"a": "}]"}}
    stream = _stream(json.dumps(document, indent=indent).encode())
    assert _all(stream) == events
    assert stream.num_elements == len(events)
    assert {key: json.loads(text) for key, text in stream.header.items()} == {
        "first": document["first"],
        "last": document["last"],
    }
    assert stream.problems == []


def test_a_bare_list_of_events_is_a_trace_too() -> None:
    stream = _stream(b'\xef\xbb\xbf [ {"a": 1} , {"a": 2} ]')
    assert _all(stream) == [{"a": 1}, {"a": 2}]


def test_a_list_that_was_never_closed_keeps_its_events() -> None:
    stream = _stream(b'[{"a": 1},\n{"a": 2},\n')
    assert _all(stream) == [{"a": 1}, {"a": 2}]
    assert stream.problems == ["cut off at byte 21 of its JSON text, inside its list of events"]


def test_damaged_events_are_counted_and_placed() -> None:
    text = b'{"traceEvents": [{"a": 1}, {"a": nonsense}, 17, {"a": 2}], "end": 1}'
    stream = _stream(text)
    assert _all(stream) == [{"a": 1}, {"a": 2}]
    assert stream.num_elements == 4
    first, second = text.index(b'{"a": non'), text.index(b"17")
    assert stream.problems == [f"2 damaged events left out (at byte {first}, {second})"]


def test_one_endless_value_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_events, "MAX_VALUE_BYTES", 1000)
    stream = _stream(b'[{"a": 1}, {"a": "' + b"x" * 5000)
    assert _all(stream) == [{"a": 1}]
    assert "larger than" in stream.problems[0]
