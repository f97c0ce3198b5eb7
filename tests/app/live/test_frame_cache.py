"""Frames from ranks to browsers: newest wins, each browser at its own pace, memory bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from app.live.frame_cache import FrameCache, Key, Wanted
from app.routes.live import watch as watching
from app.settings import Settings, Token
from tests.app.server.ranks import JOB_TOKEN, ranks, state
from tests.app.server.served import WAIT_S, Served, served
from tests.frame_runs import small_frame
from tests.waiting import wait_until
from trace_hooks.protocol.frames import Frame, decode

OPERATOR, VIEWER = "correct-horse-battery", "only-to-look-at-it"


def key(head: int = 0, run: str = "a", watch: str = "w1", layer: int = 1) -> Key:
    return (run, 0, watch, "attention", layer, head, "n", "", 0)


def test_the_cached_frames_stay_within_their_budget() -> None:
    cache = FrameCache(most_bytes=100)
    for head in range(10):
        cache.put(key(head), b"x" * 40)
        assert cache.num_bytes <= 100
    cache.put(key(9), b"y" * 30)
    cache.put(key(11), b"z" * 101)
    assert [cached[5] for cached in cache] == [8, 9]
    assert cache.num_dropped == 9
    reader = cache.open(Wanted("a"))
    assert [reader.take() for _ in range(3)] == [b"x" * 40, b"y" * 30, None]


def test_a_reader_gets_the_newest_of_each_and_all_in_turn() -> None:
    cache = FrameCache()
    cache.put(key(0), b"old")
    reader = cache.open(Wanted("a"))
    for number in range(3):
        for head in (0, 1):
            cache.put(key(head), b"%d-%d" % (head, number))
    assert [reader.take() for _ in range(3)] == [b"0-2", b"1-2", None]
    assert reader.skipped == 5
    cache.close(reader)
    cache.put(key(0), b"later")
    assert reader.take() is None


def test_a_reader_is_notified_only_of_what_it_wants() -> None:
    cache = FrameCache()
    reader = cache.open(Wanted("a", frozenset(["w1"]), layers=frozenset([1]), heads=frozenset([0])))
    for other in (key(1), key(run="b"), key(watch="w2"), key(layer=2)):
        cache.put(other, b"no")
    cache.put(key(), b"yes")
    assert [reader.take(), reader.take()] == [b"yes", None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = Settings(port=0, job_token=JOB_TOKEN)
    with served(tmp_path_factory.mktemp("runs"), settings) as running:
        yield running


def next_frame(opened: ClientConnection) -> Frame:
    while True:
        message = opened.recv(WAIT_S)
        if isinstance(message, bytes):
            return decode(message)


def next_state(opened: ClientConnection) -> dict[str, Any]:
    while True:
        message = opened.recv(WAIT_S)
        if isinstance(message, str):
            content: dict[str, Any] = json.loads(message)
            return content


def test_a_browser_sees_what_the_ranks_send_and_who_sent_it(server: Served) -> None:
    with ranks(server, "seen") as job_ranks:
        job_ranks[1].agent.offer(small_frame(3, head=7))
        wait_until(lambda: state(server, "seen")["frames"] == 1)
        with server.socket("/live/frames?run=seen", max_size=None) as opened:
            first = next_state(opened)
            assert (first["connected"], first["frames"]) == (2, 1)
            last = next_frame(opened)  # what came before it did
            assert (last.rank, last.attempt, last.step, last.head) == (1, 0, 3, 7)
            assert last.data == small_frame(3).data
            job_ranks[0].agent.offer(small_frame(4, head=2))
            assert (next_frame(opened).step, next_state(opened)["frames"]) == (4, 2)


def test_a_browser_may_want_some_frames_only(server: Served) -> None:
    address = "/live/frames?run=some&watch=w1&what=attention&layer=1&head=2&head=3"
    with ranks(server, "some", 1) as job_ranks, server.socket(address) as opened:
        for head in range(5):
            job_ranks[0].agent.offer(small_frame(head=head))
        assert {next_frame(opened).head, next_frame(opened).head} == {2, 3}
        next_state(opened)
        assert isinstance(opened.recv(WAIT_S), str)  # and no other


def test_a_page_is_sent_what_is_newest_once_it_has_drawn(server: Served) -> None:
    address = "/live/frames?run=paced&reports=1"
    with ranks(server, "paced", 1) as job_ranks, server.socket(address) as opened:
        for step in (1, 2):
            job_ranks[0].agent.offer(small_frame(step))
            assert next_frame(opened).step == step
        for step in (3, 4):
            job_ranks[0].agent.offer(small_frame(step))
            wait_until(lambda number=step: state(server, "paced")["frames"] == number)
        opened.send("drawn 1")
        assert next_frame(opened).step == 4


@pytest.mark.parametrize("query", ["", "?run=", "?run=x&layer=one", "?run=x&head=1e3"])
def test_a_request_that_no_browser_makes_is_refused_with_a_reason(
    server: Served, query: str
) -> None:
    with server.socket(f"/live/frames{query}") as opened, pytest.raises(ConnectionClosed):
        opened.recv(WAIT_S)
    assert opened.close_code == watching.UNKNOWN
    assert opened.close_reason


def test_viewers_see_no_content(tmp_path: Path) -> None:
    tokens = (Token(OPERATOR), Token.parse(f"viewer={VIEWER}"))
    with served(tmp_path, Settings(port=0, tokens=tokens)) as guarded:
        named = {"additional_headers": {"Authorization": f"Bearer {VIEWER}"}}
        with (
            guarded.socket("/live/frames?run=x", **named) as opened,
            pytest.raises(ConnectionClosed),
        ):
            opened.recv(WAIT_S)
        assert opened.close_code == watching.FORBIDDEN
        assert "needs the role operator" in str(opened.close_reason)
        named = {"additional_headers": {"Authorization": f"Bearer {OPERATOR}"}}
        with guarded.socket("/live/frames?run=x", **named) as opened:
            assert next_state(opened)["watches"] == []
