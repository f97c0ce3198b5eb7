"""The socket of the ranks: who is let in, what they are asked to do, and what hostile ones get."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from app.live.claims import Claims
from app.live.connected_rank import Hello
from app.live.connected_ranks import ConnectedRanks, Crowded
from app.live.frame_cache import FrameCache
from app.routes.live import closing, rank_socket
from app.settings import Settings, Token
from tests.app.server.ranks import (
    BEARER,
    JOB_TOKEN,
    hello,
    line,
    post,
    ranks,
    refusal,
    state,
)
from tests.app.server.served import WAIT_S, Served, served
from tests.frame_runs import small_frame
from tests.waiting import wait_until
from trace_hooks.protocol.frames import MAX_FRAME_BYTES

OPERATOR, VIEWER = "correct-horse-battery", "only-to-look-at-it"
W1 = {"id": "w1", "what": "attention", "layers": [1], "heads": [0, 1]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = Settings(port=0, job_token=JOB_TOKEN)
    with served(tmp_path_factory.mktemp("runs"), settings) as running_one:
        yield running_one


@pytest.mark.parametrize(
    "given",
    [
        {"x": "y"},
        {"Authorization": "Bearer wrong-wrong"},
        {"Authorization": JOB_TOKEN},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {JOB_TOKEN}"},
    ],
)
def test_without_the_job_token_a_rank_gets_a_reason_and_is_disconnected(
    server: Served, given: dict[str, str]
) -> None:
    with line(server, **given) as opened:
        code, reason = refusal(opened)
    assert code == closing.UNKNOWN_TOKEN
    assert reason is not None
    assert "TRACE_HOOKS_TOKEN" in reason


def test_a_server_without_a_job_token_lets_no_rank_in(tmp_path: Path) -> None:
    with served(tmp_path, Settings(port=0)) as bare:
        for given in (BEARER, {"Authorization": "Bearer "}):
            with line(bare, **given) as opened:
                assert refusal(opened)[0] == closing.UNKNOWN_TOKEN


def test_tokens_of_people_and_of_jobs_are_apart(tmp_path: Path) -> None:
    settings = Settings(port=0, tokens=(Token(OPERATOR),), job_token=JOB_TOKEN)
    with served(tmp_path, settings) as guarded:
        with line(guarded, Authorization=f"Bearer {OPERATOR}") as opened:
            assert refusal(opened)[0] == closing.UNKNOWN_TOKEN
        assert guarded.ask("/api/watch?run=x", authorization=f"Bearer {JOB_TOKEN}")[0] == 401
        with (
            pytest.raises(InvalidStatus),
            guarded.socket("/live/frames", additional_headers=BEARER),
        ):
            pass
    with pytest.raises(ValueError, match="--job-token is also a --token"):
        Settings(tokens=(Token(OPERATOR),), job_token=OPERATOR)


def test_pages_of_other_sites_open_no_socket(server: Served) -> None:
    for path in ("/agent", "/live/frames?run=x"):
        named = {"additional_headers": BEARER, "origin": "http://evil.example"}
        with pytest.raises(InvalidStatus) as refused, server.socket(path, **named):
            pass
        assert refused.value.response.status_code == 403
    status, _ = post(server, "x", {"watches": [W1]}, origin="http://evil.example")
    assert status == 403


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"type": "heartbeat"}', "its hello"),
        ("[" * 5_000, "not a JSON object"),
        (hello(run="../x"), "names no run"),
        (hello(run=5), "names no run"),
        (hello(rank=8), "rank is '8'"),
        (hello(rank=True), "rank is"),
        (hello(attempt=-1), "attempt is"),
        (hello(world_size=1 << 40), "world_size is"),
        (hello(what=[]), "malformed"),
        (hello(watches=[{"what": "eval"}]), "a watch's what"),
        (b"RSF1", "not a JSON object"),
    ],
)
def test_a_rank_that_does_not_identify_itself_is_disconnected(
    server: Served, message: str | bytes, sentence: str
) -> None:
    with line(server) as opened:
        opened.send(message)
        code, reason = refusal(opened)
    assert code == closing.MALFORMED
    assert sentence in str(reason)


def header(**more: Any) -> bytes:
    """A frame with other values in its header."""
    encoded = small_frame().encode()
    (size,) = struct.unpack_from("<I", encoded, 4)
    text = json.dumps(json.loads(encoded[8 : 8 + size]) | more).encode()
    return b"RSF1" + struct.pack("<I", len(text)) + text + encoded[8 + size :]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"RSF1",
        b"RSF1\xff\xff\xff\xff",
        b"x" * 100,
        small_frame().encode()[:-1],
        small_frame().encode() + b"x",
        header(what="eval"),
        header(shape=[10**9]),
        header(step="0"),
        header(scale=1e999),
        header(more=1),
        '{"type": "eval"}',
        '{"type": "heartbeat"}',
        '{"type": "heartbeat", "step": 1e99}',
        hello(rank=1),
        hello(run="other"),
    ],
)
def test_a_sender_of_malformed_messages_is_disconnected(
    server: Served, content: str | bytes
) -> None:
    with line(server) as opened:
        opened.send(hello("hostile"))
        assert json.loads(opened.recv(WAIT_S))["type"] == "welcome"
        opened.send(content)
        code, reason = refusal(opened)
    assert (code, bool(reason)) == (closing.MALFORMED, True)
    assert state(server, "hostile")["connected"] == 0


@pytest.mark.parametrize("message", [b"x", '{"type": "ack", "id": "c0"}'])
def test_a_flood_is_cut_off(
    server: Served, message: str | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_socket, "MESSAGES_PER_S", 100.0)  # any machine sends more
    content = small_frame().encode() if message == b"x" else message
    with line(server) as opened:
        opened.send(hello("flood"))
        with suppress(ConnectionClosed):
            for _ in range(200_000):
                opened.send(content)
        assert opened.close_code in (closing.FLOOD, 1006)
    wait_until(lambda: state(server, "flood")["connected"] == 0)


def test_a_rank_that_leaves_before_its_welcome_is_not_connected(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server still looks at its hello, on a slow disk."""
    check, has_left = Claims.check, threading.Event()

    def check_slowly(claims: Claims, hello: Hello) -> None:
        assert has_left.wait(WAIT_S)
        check(claims, hello)

    monkeypatch.setattr(Claims, "check", check_slowly)
    with line(server) as opened:
        opened.send(hello("leaving"))
        opened.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        opened.socket.shutdown(socket.SHUT_RDWR)
        opened.socket.close()
    time.sleep(0.5)  # until the server knows
    has_left.set()
    wait_until(lambda: state(server, "leaving").get("gone") == 1)
    assert state(server, "leaving")["connected"] == 0


def test_giant_messages_are_cut_off(server: Served) -> None:
    with line(server) as opened:
        opened.send(hello("giant"))
        with suppress(ConnectionClosed):
            opened.send(b"\0" * (MAX_FRAME_BYTES + 1))
        assert refusal(opened)[0] in (1009, 1006)
    with line(server, Authorization="Bearer wrong-wrong") as opened:
        with suppress(ConnectionClosed):
            opened.send(b"\0" * (1 << 20))
        assert refusal(opened)[0] in (closing.UNKNOWN_TOKEN, 1009, 1006)


def test_whoever_is_silent_is_gone(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_socket, "HELLO_S", 0.2)
    monkeypatch.setattr(rank_socket, "SILENT_S", 0.2)
    with line(server) as opened:
        assert refusal(opened)[0] == closing.SILENT
    with line(server) as opened:
        opened.send(hello("silent"))
        assert refusal(opened)[0] == closing.SILENT
    wait_until(lambda: state(server, "silent")["gone"] == 1)


def test_a_rank_that_comes_again_takes_its_own_place(server: Served) -> None:
    with line(server) as old, line(server) as new:
        old.send(hello("twice"))
        old.recv(WAIT_S)
        new.send(hello("twice"))
        assert refusal(old)[0] == closing.REPLACED
        assert json.loads(new.recv(WAIT_S))["type"] == "welcome"
        assert state(server, "twice")["connected"] == 1


def test_the_server_knows_who_is_there_who_left_and_who_is_gone(server: Served) -> None:
    with ranks(server, "who", 3) as job_ranks:
        job_ranks[0].rank_state.step = 5
        wait_until(lambda: state(server, "who")["step"] == 5)
        job_ranks[1].agent.stop()
        connection = job_ranks[2].agent._connection
        assert connection is not None
        job_ranks[2].agent._stopping.set()
        connection.socket.shutdown(2)
        wait_until(lambda: state(server, "who")["gone"] == 1)
        answer = state(server, "who")
        assert [(rank["rank"], rank["state"]) for rank in answer["ranks"]] == [
            (0, "connected"),
            (1, "ended"),
            (2, "gone"),
        ]
        assert answer["ranks"][0]["allow_content"] is True


def test_watches_are_forwarded_and_answered_by_each_rank(server: Served) -> None:
    with ranks(server, "watched") as job_ranks:
        status, answer = post(server, "watched", {"watches": [W1]})
        assert status == 200
        assert [watch["id"] for watch in answer["watches"]] == ["w1"]
        assert answer["silent"] == []
        assert answer["acks"] == [
            {"attempt": 0, "rank": rank, "ok": True, "text": "watching 1"} for rank in (0, 1)
        ]
        assert job_ranks[0].watches[0].heads == (0, 1)
        wait_until(
            lambda: state(server, "watched")["costs"].get("w1", {}).get("bytes_per_s") == 200
        )
        assert state(server, "watched")["costs"]["w1"]["cost_ms_per_step"] == 2.0

        post(server, "watched", {"watches": [{"id": "w2", "what": "mlp", "until": 9}]})
        assert [watch.id for watch in job_ranks[1].watches] == ["w1", "w2"]
        for one in job_ranks:
            one.rank_state.step = 10
        wait_until(lambda: [w["id"] for w in state(server, "watched")["watches"]] == ["w1"])
        answer = post(server, "watched", {"end": ["w1"]})[1]
        assert answer["watches"] == []
        assert job_ranks[1].watches == []


def test_a_watch_that_is_refused_has_an_answer_of_each_rank(server: Served) -> None:
    with ranks(server, "refused"):
        _, answer = post(server, "refused", {"watches": [W1 | {"layers": [99]}]})
        assert [(ack["ok"], ack["text"]) for ack in answer["acks"]] == [
            (False, "there is no layer 99 here")
        ] * 2
        assert answer["watches"] == []  # nobody takes it


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ([], "not a JSON object"),
        ({"watches": [{"what": "eval"}]}, "a watch's what"),
        ({"watches": [W1 | {"rows": 10**9}]}, "rows"),
        ({"watches": [W1 | {"code": "__import__('os')"}]}, "has no"),
        ({"watches": [W1 | {"every": float("nan")}]}, "NaN is not a number in JSON"),
        ({"watches": [W1] * 17}, "at most 16"),
        ({"watches": [W1, W1]}, "two watches"),
        ({"watches": "w1"}, "give a list"),
        ({"end": "w1"}, "end is not a list"),
        ({"wathces": []}, "there is no 'wathces' here"),
        ({"watches": [W1 | {"id": f"x{i}"} for i in range(16)], "end": ["x" * 70_000]}, "longer"),
    ],
)
def test_an_invalid_watch_is_refused(server: Served, body: Any, sentence: str) -> None:
    with ranks(server, "bad", 1) as job_ranks:
        status, answer = post(server, "bad", body)
        assert status == 400
        assert sentence in answer["error"]
        assert job_ranks[0].watches == []


def test_what_is_not_connected_cannot_be_watched(server: Served) -> None:
    status, answer = post(server, "nobody", {"watches": [W1]})
    assert status == 400
    assert "no rank of 'nobody' is connected" in answer["error"]
    status, answer = post(server, "", {"watches": [W1]})
    assert (status, answer["error"]) == (400, "which run? Give it as ?run=NAME")


def test_a_rank_that_does_not_answer_holds_nobody_up(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.live.connected_rank.ACK_S", 0.5)
    with ranks(server, "mute", 1), line(server) as opened:
        opened.send(hello("mute", rank=5))
        wait_until(lambda: state(server, "mute")["connected"] == 2)
        _, answer = post(server, "mute", {"watches": [W1]})
        assert [ack["rank"] for ack in answer["acks"]] == [0]
        assert answer["silent"] == [5]


def test_commands_go_to_the_ranks_that_are_named(server: Served) -> None:
    with ranks(server, "commands") as job_ranks:
        for one in job_ranks:
            one.live.commands.register("add", lambda value: f"{value['a'] + 1}")
        message = {"name": "add", "args": {"a": 4}, "ranks": [1]}
        status, answer = post(server, "commands", message, "/api/command")
        assert status == 200
        assert answer["acks"] == [{"attempt": 0, "rank": 1, "ok": True, "text": "5"}]
        _, answer = post(server, "commands", {"name": "sub"}, "/api/command")
        assert [ack["ok"] for ack in answer["acks"]] == [False, False]
        for wrong in ({}, {"name": 5}, {"name": "add", "ranks": "all"}, {"name": "a", "eval": "1"}):
            assert post(server, "commands", wrong, "/api/command")[0] == 400
        status, answer = post(server, "commands", {"name": "add", "ranks": [7]}, "/api/command")
        assert (status, "is connected" in answer["error"]) == (400, True)


def test_only_operators_ask_for_something(tmp_path: Path) -> None:
    tokens = (Token(OPERATOR), Token.parse(f"viewer={VIEWER}"))
    with served(tmp_path, Settings(port=0, tokens=tokens, job_token=JOB_TOKEN)) as guarded:
        viewer = {"authorization": f"Bearer {VIEWER}"}
        for path in ("/api/watch", "/api/command"):
            status, answer = post(guarded, "x", {"watches": []}, path, **viewer)
            assert status == 403
            assert "needs the role operator" in answer["error"]
        assert state(guarded, "x", **viewer)["watches"] == []
        for headers, may_ask in ((viewer, False), ({"authorization": f"Bearer {OPERATOR}"}, True)):
            content = json.loads(guarded.ask("/api/connected?run=x", **headers)[1])
            assert (content["may_ask"], content["connected"]) == (may_ask, 0)


def test_a_server_that_was_away_learns_from_the_ranks_what_is_watched(tmp_path: Path) -> None:
    settings = Settings(port=0, job_token=JOB_TOKEN)
    with served(tmp_path, settings) as first, ranks(first, "kept") as job_ranks:
        post(first, "kept", {"watches": [W1]})
        watches = [watch.to_json() for rank in job_ranks for watch in rank.watches]
    with served(tmp_path, settings) as second, line(second) as opened:
        opened.send(hello("kept", watches=watches[:1]))
        wait_until(lambda: state(second, "kept").get("connected") == 1)
        assert [watch["id"] for watch in state(second, "kept")["watches"]] == ["w1"]
        with line(second) as other:  # a rank that was started since
            other.send(hello("kept", rank=1))
            assert json.loads(other.recv(WAIT_S))["type"] == "welcome"
            assert [watch["id"] for watch in json.loads(other.recv(WAIT_S))["watches"]] == ["w1"]


def test_runs_and_ranks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.live.connected_ranks.MOST_RUNS", 2)
    monkeypatch.setattr("app.live.connected_ranks.MOST_RANKS", 4)
    known = ConnectedRanks()
    first = known.enter(Hello("a", 0, 0, 8))
    known.enter(Hello("b", 0, 0, 8))
    with pytest.raises(Crowded, match="ranks of 2 runs"):
        known.enter(Hello("c", 0, 0, 8))
    known.leave(first)
    known.enter(Hello("c", 0, 0, 8))
    assert set(known.runs) == {"b", "c"}
    for rank in (1, 2):
        known.enter(Hello("c", 0, rank, 8))
    with pytest.raises(Crowded, match="4 ranks"):
        known.enter(Hello("c", 0, 3, 8))
    known.enter(Hello("c", 0, 2, 8))  # one that comes again takes its own place
    known.leave(known.runs["b"].ranks[0, 0])
    known.enter(Hello("c", 0, 3, 8))
    assert set(known.runs) == {"c"}


def test_frames_of_evicted_runs_are_dropped() -> None:
    kept = FrameCache()
    for run in ("a", "b"):
        kept.put((run, 0, "w1", "mlp", 0, 0, "", "", 0), b"12345678")
    kept.forget("a")
    assert [key[0] for key in kept] == ["b"]
    assert kept.num_bytes == 8
