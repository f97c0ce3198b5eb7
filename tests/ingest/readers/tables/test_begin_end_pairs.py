"""Begin and end events on one track become spans, whatever is missing."""

from __future__ import annotations

from ingest.readers.tables.begin_end_pairs import Track, pair_problems

Span = tuple[int, int, str, str, int, int]


def _track() -> tuple[Track[int], list[Span]]:
    spans: list[Span] = []
    return Track(lambda *span: spans.append(span)), spans


def test_each_end_closes_the_newest_begin_of_its_name() -> None:
    track, spans = _track()
    track.begin(0, "forward", "a", 1)
    track.begin(5, "host", "b", 2)
    assert track.enclosing == "host"
    track.end(7, "a", 3)  # not nested
    track.end(9, "", 4)  # without a name: what began last
    assert spans == [(0, 7, "forward", "a", 1, 3), (5, 4, "host", "b", 2, 4)]


def test_what_has_no_counterpart_is_counted() -> None:
    track, spans = _track()
    track.end(1, "a", 0)
    track.begin(2, "host", "b", 0)
    track.begin(3, "host", "c", 0)
    track.end(8, "c", 0)
    track.close()
    assert spans == [(3, 5, "host", "c", 0, 0), (2, 6, "host", "b", 0, 0)]
    assert (track.num_ends_alone, track.num_never_ended) == (1, 1)
    assert len(pair_problems(1, 1)) == 2
    assert pair_problems(0, 0) == []
