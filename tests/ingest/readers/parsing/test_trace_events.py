"""One event of a Chrome trace: proper JSON, and what can be taken from damage."""

from __future__ import annotations

import io

from ingest.readers.parsing.trace_events import Event, event_stream, tolerant_event


def test_a_sound_list_is_decoded_as_structs() -> None:
    text = b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1.5, "dur": 2}]}'
    (batch,) = event_stream(io.BytesIO(text).read, Event)
    assert [(e.ph, e.name, bytes(e.ts), bytes(e.dur)) for e in batch] == [("X", "a", b"1.5", b"2")]


def test_odd_text_keeps_what_can_be_understood() -> None:
    event = tolerant_event(b'{"ph": "X", "name": "a\tb", "tid": [1], "ts": NaN}', Event)
    assert event is not None
    assert (event.ph, event.name, event.tid, bytes(event.ts)) == ("X", "a\tb", None, b"NaN")
    assert tolerant_event(b"[1]", Event) is None
