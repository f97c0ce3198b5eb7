"""Rounds of frames: the next one once a page has drawn enough."""

from __future__ import annotations

from app.live.frame_cache import FrameCache, Wanted
from app.live.frame_pacing import MOST_ROUND_BYTES, PATIENCE_S, FramePacing
from tests.app.live.test_frame_cache import key


def taken(rounds: FramePacing, now_s: float = 0.0) -> list[bytes]:
    return list(iter(lambda: rounds.take(now_s), None))


def test_a_page_that_reports_gets_the_next_round_when_it_has_drawn_one() -> None:
    cache = FrameCache()
    rounds = FramePacing(cache.open(Wanted("a")), reports=True)

    def put(number: int) -> None:
        for head in (0, 1):
            cache.put(key(head), b"%d-%d" % (head, number))

    put(0)
    assert rounds.take(0.0) == b"0-0"
    put(1)  # while the first round is sent
    assert taken(rounds) == [b"1-1", b"0-1"]
    put(2)
    for text in ("", "drawn", "drawn -1", "drawn 1", "drawn 1e9", "hello 9"):
        rounds.report(text)
    assert taken(rounds) == []
    put(3)
    rounds.report("drawn 2")
    assert taken(rounds) == [b"0-3", b"1-3"]
    put(4)
    assert taken(rounds, PATIENCE_S - 1) == []
    assert taken(rounds, PATIENCE_S) == [b"0-4", b"1-4"]  # it has reported nothing for long
    put(5)
    assert taken(rounds, PATIENCE_S) == []
    rounds.report("drawn 7")
    assert taken(rounds, PATIENCE_S) == [b"0-5", b"1-5"]


def test_a_round_is_bounded_and_a_client_that_does_not_report_gets_all() -> None:
    cache = FrameCache()
    for head in range(5):
        cache.put(key(head), bytes(MOST_ROUND_BYTES // 2))
    assert len(taken(FramePacing(cache.open(Wanted("a")), reports=True))) == 4
    assert len(taken(FramePacing(cache.open(Wanted("a")), reports=False))) == 5
