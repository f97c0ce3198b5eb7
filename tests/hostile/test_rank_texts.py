"""What ranks say of themselves is kept and shown: it neither grows nor breaks an answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from app.access.wrong_tokens import MOST_AT_ONCE
from app.live import claims
from app.live.connected_rank import ConnectedRank, Hello
from app.routes.live import closing
from app.settings import Settings
from tests.app.server.ranks import BEARER, JOB_TOKEN, hello, line, post, refusal, state
from tests.app.server.served import WAIT_S, Served, served
from tests.runs_builder import two_rank_run
from tests.waiting import wait_until

BEAT = {"type": "heartbeat", "step": 1, "sent": 0, "thinned": 0, "phase": ""}
HALF = "\ud800"
NONE_OF_JSON = {
    "NaN": "NaN",
    "infinity": "-Infinity",
    "too large": "1e999",
    "half a character": '"\\ud800"',
    "4,000 digits": "9" * 4_000,
    "named by half a character": '{"\\ud800": 1}',
}
MOST_BYTES = 60_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    two_rank_run(tmp_path / "runs" / "job")
    with served(tmp_path / "runs", Settings(port=0, job_token=JOB_TOKEN)) as running:
        yield running


def strictly(text: str | bytes) -> Any:
    """As a browser reads JSON."""

    def refuse(found: str) -> NoReturn:
        raise AssertionError(f"{found} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.sampled
@pytest.mark.parametrize("value", NONE_OF_JSON.values(), ids=NONE_OF_JSON)
@pytest.mark.parametrize(
    "message",
    [
        hello(what={"layers": "VALUE"}),
        json.dumps({**BEAT, "watches": [{"id": "w", "cost_ms_per_step": "VALUE"}]}),
        json.dumps({**BEAT, "phase": "VALUE"}),
    ],
    ids=["hello", "cost", "phase"],
)
def test_invalid_json_reaches_no_page(server: Served, message: str, value: str) -> None:
    with line(server) as opened:
        if "heartbeat" in message:
            opened.send(hello())
        opened.send(message.replace('"VALUE"', value))
        assert refusal(opened)[0] == closing.MALFORMED
    with line(server) as opened:
        opened.send(hello())
        opened.recv(WAIT_S)
        assert state(server, "raw")["connected"] == 1
        with server.socket("/live/frames?run=raw") as browser:
            assert strictly(browser.recv(WAIT_S))["connected"] == 1


def kept_of(rank: ConnectedRank) -> int:
    return len(json.dumps(rank.as_json()))


def test_a_rank_has_little_to_say_of_itself() -> None:
    nested = json.loads("[" + "[]," * 10_000 + "[]]")
    many = {f"n{number}": number for number in range(10_000)}
    for what in ({"x": nested}, {"layers": nested}, {"layers": list(range(10_000))}, many):
        rank = ConnectedRank(Hello.from_json(json.loads(hello(what=what))))
        assert kept_of(rank) < 1_000
        rank.beat({**BEAT, "watches": [{"id": "w", "text": "x" * 9_999, "x": nested, **many}]})
        assert kept_of(rank) < 2_000
    rank = ConnectedRank(Hello.from_json(json.loads(hello(what={"layers": [0, 1], "heads": 4}))))
    rank.beat({**BEAT, "watches": [{"id": "w", "text": "t", "cost_ms_per_step": 1.5, "frames": 3}]})
    shown = rank.as_json()
    assert shown["what"] == {"layers": [0, 1], "heads": 4}
    assert shown["watches"] == [{"id": "w", "text": "t", "cost_ms_per_step": 1.5, "frames": 3}]


def test_costs_whose_sum_is_no_number_of_json_keep_nobody_from_the_state(server: Served) -> None:
    with line(server) as opened:
        opened.send(hello())
        opened.recv(WAIT_S)
        huge = {"id": "w", "bytes": 1e308}
        opened.send(json.dumps({**BEAT, "step": 7, "watches": [huge, huge]}))
        wait_until(lambda: strictly(server.ask("/api/watch?run=raw")[1])["step"] == 7)


def test_commands_that_are_no_json_get_a_sentence(server: Served) -> None:
    with line(server) as opened:
        opened.send(hello())
        opened.recv(WAIT_S)
        command = {"name": "capture_kernels", "args": {"x": HALF}}
        status, answer = post(server, "raw", command, "/api/command")
    assert status == 400
    assert "not JSON" in answer["error"]


def test_guesses_of_the_job_token_are_limited_and_the_right_one_never_is(server: Served) -> None:
    found: Counter[int] = Counter()
    for number in range(3 * MOST_AT_ONCE):
        try:
            with line(server, Authorization=f"Bearer a-guess-of-a-token-{number}") as opened:
                opened.recv(WAIT_S)
        except InvalidStatus as refused:
            found[refused.response.status_code] += 1
        except ConnectionClosed as closed:
            found[closed.rcvd.code if closed.rcvd else 0] += 1
    assert found[closing.UNKNOWN_TOKEN] <= MOST_AT_ONCE + 1
    assert found[429] >= 2 * MOST_AT_ONCE - 1
    with line(server, **BEARER) as opened:
        opened.send(hello())
        assert strictly(opened.recv(WAIT_S))["type"] == "welcome"


def test_a_run_has_a_bounded_number_of_attempts(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "MOST_ATTEMPTS", 3)
    codes = []
    for attempt in (0, 7, 9, 11, 9):
        with line(server) as opened:
            opened.send(hello(attempt=attempt, rank=attempt % 8))
            try:
                codes.append(strictly(opened.recv(WAIT_S))["type"])
            except ConnectionClosed:
                codes.append(opened.close_reason)
    assert [code for code in codes if code == "welcome"] == ["welcome"] * 4
    assert "this run has 3 attempts" in codes[3]
    folder = server.hub.store.folder / "raw" / "attempts"
    assert sorted(one.name for one in folder.iterdir()) == ["0000", "0007", "0009"]
