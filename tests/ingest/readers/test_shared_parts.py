"""The parts readers share: exact times, nesting, the event stream, the streams below it."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.errors import UserError
from ingest.readers.parsing import json_events
from ingest.readers.parsing.exact_times import microseconds_to_ns
from ingest.readers.parsing.json_events import EventStream
from ingest.readers.parsing.sources import Source, files_of, sources
from ingest.readers.tables import nesting
from ingest.readers.tables.nesting import depths


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"4212936054935.310", 4212936054935310),
        (b"1712195495406752.801", 1712195495406752801),  # a float64 would be 51 ns off
        (b"1623142623460016", 1623142623460016000),
        (b"1712195495520871.0", 1712195495520871000),
        (b"-3.5", -3500),
        (b"1e3", 1_000_000),
        (b"0.0005", 0),  # half to even
        (b"0.0015", 2),
        (b'"12.250"', 12250),
    ],
)
def test_microseconds_become_exact_nanoseconds(text: bytes, ns: int) -> None:
    values, readable = microseconds_to_ns([text])
    assert (values.tolist(), readable.tolist()) == ([ns], [True])
    # and the same among numbers of other shapes, which takes another way
    values, readable = microseconds_to_ns([b"1.000", text, b"2"])
    assert values.tolist() == [1000, ns, 2000]
    assert readable.all()


@pytest.mark.parametrize(
    "text",
    [b"NaN", b"Infinity", b'"x"', b"null", b"1e400", b"1e999999999", b"9999999999999999", b"\xff"],
)
def test_what_is_no_time_is_told_apart(text: bytes) -> None:
    values, readable = microseconds_to_ns([b"5.000", text])
    assert values.tolist() == [5000, 0]
    assert readable.tolist() == [True, False]


def test_all_ways_of_reading_times_agree() -> None:
    rng = random.Random(1)
    texts = [f"{rng.randrange(10**15)}.{rng.randrange(1000):03d}".encode() for _ in range(200)]
    fast, _ = microseconds_to_ns(texts)
    assert fast.tolist() == [int(text.replace(b".", b"")) for text in texts]
    assert microseconds_to_ns([*texts, b"1.5"])[0].tolist() == [*fast.tolist(), 1500]
    assert microseconds_to_ns([*texts, b"1.00005"])[0].tolist() == [*fast.tolist(), 1000]
    assert microseconds_to_ns([])[0].tolist() == []


def _depths(spans: list[tuple[int, int, int]]) -> list[int]:
    track, start_ns, dur_ns = (np.array(column) for column in zip(*spans, strict=True))
    return depths(track, start_ns, dur_ns).tolist()


def test_nested_spans_lie_as_deep_as_they_were_called() -> None:
    outer, inner, innermost, sibling = (0, 0, 100), (0, 10, 30), (0, 15, 5), (0, 50, 10)
    assert _depths([inner, sibling, outer, innermost]) == [1, 1, 0, 2]


def test_overlapping_kernels_are_stacked_on_free_lanes() -> None:
    chain = [(7, start, 15) for start in range(0, 100, 10)]  # each outlives the one before
    found = _depths(chain)
    assert max(found) == 1
    assert found == [0, 1] * 5


def test_tracks_do_not_touch_each_other() -> None:
    assert _depths([(0, 0, 10), (1, 5, 10), (0, 10, 5)]) == [0, 0, 0]


@pytest.mark.parametrize("spans_at_once", [2, 1 << 16])
def test_no_two_spans_share_a_lane_at_one_time(
    monkeypatch: pytest.MonkeyPatch, spans_at_once: int
) -> None:
    monkeypatch.setattr(nesting, "SPANS_AT_ONCE", spans_at_once)
    rng = random.Random(3)
    spans = [(rng.randrange(2), rng.randrange(500), rng.randrange(1, 60)) for _ in range(300)]
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (track, start, dur), depth in zip(spans, _depths(spans), strict=True):
        lanes.setdefault((track, depth), []).append((start, start + dur))
    for used in lanes.values():
        used.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(used))


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


def _read_all(source: Source) -> bytes:
    return b"".join(iter(lambda: source.read(1000), b""))


def _contents(paths: list[Path]) -> dict[str, bytes]:
    return {source.name: _read_all(source) for source in sources(paths, lambda _: None)}


def _tar(members: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_gzip_tar_and_gzip_inside_tar_are_seen_through(tmp_path: Path) -> None:
    plain = bytes(range(256)) * 50
    (tmp_path / "a").write_bytes(plain)
    (tmp_path / "b").write_bytes(gzip.compress(plain[:100]) + gzip.compress(plain[100:]))
    members = {"x/one": plain, "two": gzip.compress(plain), ".hidden": plain}
    (tmp_path / "c").write_bytes(_tar(members))
    (tmp_path / "d").write_bytes(_tar(members, "w:gz"))
    assert _contents(files_of([tmp_path])) == {
        str(tmp_path / name): plain for name in ("a", "b", "c/x/one", "c/two", "d/x/one", "d/two")
    }


def test_a_cut_gzip_gives_what_it_has_and_says_where(tmp_path: Path) -> None:
    content = random.Random(0).randbytes(50_000)
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(content)[:30_000])
    found = sources([path], lambda _: None)
    source = next(found)
    read = _read_all(source)
    assert content.startswith(read)
    assert len(read) > 20_000
    assert source.damages() == [f"its gzip is cut off after {len(read):,} bytes of content"]


def _flip(data: bytes) -> bytes:
    return data[:25_000] + bytes(50) + data[25_050:]


@pytest.mark.parametrize("damage", [_flip, lambda data: data[:20_000]], ids=["flipped", "cut"])
def test_a_damaged_archive_keeps_its_first_members(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    content, other = random.Random(0).randbytes(15_000), random.Random(1).randbytes(15_000)
    path = tmp_path / "many.tar.gz"
    path.write_bytes(damage(gzip.compress(_tar({"first": content, "second": other}))))
    read, damages = {}, []
    for source in sources([path], lambda _: None):
        read[source.name] = _read_all(source)
        damages += source.damages()
    assert read[f"{path}/first"] == content
    assert any("gzip is" in text or "cut off" in text for text in damages)


def test_a_gzip_bomb_unfolds_in_small_pieces(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(30_000_000)))
    found = sources([path], lambda _: None)
    source = next(found)
    assert len(source.head) == 1 << 20
    assert max(map(len, iter(lambda: source.read(1 << 26), b""))) <= 4 << 20


def test_files_come_in_natural_order_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("rank10.json", "rank9.json", ".DS_Store", "sub/rank1.json", ".git/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = [str(path.relative_to(tmp_path)) for path in files_of([tmp_path])]
    assert found == ["rank9.json", "rank10.json", "sub/rank1.json"]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        files_of([tmp_path / "no"])
    with pytest.raises(UserError, match="empty folder"):
        files_of([tmp_path])
