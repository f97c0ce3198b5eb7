"""WebSockets: only ranks may send long messages; a head that is too long is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from websockets.exceptions import InvalidStatus

from app.settings import Settings
from app.web import job_sockets
from tests.app.server.ranks import JOB_TOKEN, ranks, refusal, state
from tests.app.server.served import WAIT_S, Served, served
from tests.frame_runs import small_frame
from tests.waiting import wait_until

LONG = 200_000
"""Bytes of a message that is longer than what a browser may send."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = Settings(port=0, job_token=JOB_TOKEN)
    with served(tmp_path_factory.mktemp("runs"), settings) as running:
        yield running


def test_a_rank_may_send_what_a_browser_may_not(server: Served) -> None:
    with ranks(server, "job", 1) as (rank,):
        rank.agent.offer(small_frame(num_bytes=LONG))
        wait_until(lambda: state(server, "job")["frames"] == 1)
    with server.socket("/api/live") as browser:
        browser.send(b"x" * LONG)
        assert refusal(browser)[0] == 1009, "message too big"


def test_a_head_that_is_too_long_is_refused_with_a_sentence(server: Served) -> None:
    headers = {"X-Note": "x" * (job_sockets.MAX_LINE_LENGTH + 1)}
    with (
        pytest.raises(InvalidStatus) as refused,
        server.socket(additional_headers=headers, open_timeout=WAIT_S),
    ):
        pass
    assert refused.value.response.status_code == 431
    assert "send less at a time" in json.loads(refused.value.response.body or b"")["error"]
