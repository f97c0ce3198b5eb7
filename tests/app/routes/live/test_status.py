"""The live socket: news at once, the newest state only."""

from __future__ import annotations

import asyncio
import time

import pytest
from websockets.exceptions import ConnectionClosed

from app.routes.live import status as live
from tests.app.server.served import WAIT_S, Served
from tests.app.server.test_serving import next_message
from tests.runs_builder import RunBuilder, two_rank_run
from tests.waiting import wait_until


def test_the_socket_sends_news_at_once_and_the_age_each_second(
    server: Served, job: RunBuilder
) -> None:
    with server.socket("/api/live?run=job") as opened:
        first = next_message(opened)
        assert first["run"] == "job"
        assert first["last_step"] == 2
        assert abs(int(first["server_ns"]) - time.time_ns()) < 5e9
        beats = [next_message(opened) for _ in range(3)]
        assert beats[-1]["data_age_s"] > beats[0]["data_age_s"]
        job.step(0, 3, 300, 400)
        job.publish()
        message = next_message(opened)
        while message["last_step"] != 3:
            message = next_message(opened)
        assert message["version"] > first["version"]


def test_writers_of_a_run_are_told_while_a_page_shows_it(server: Served, job: RunBuilder) -> None:
    watched = job.folder / "watched"
    watched.unlink(missing_ok=True)  # other tests have looked
    with server.socket("/api/live?run=job") as opened:
        next_message(opened)
        touched_ns = wait_until(lambda: watched.exists() and watched.stat().st_mtime_ns)
        wait_until(lambda: watched.stat().st_mtime_ns > touched_ns)
        next_message(opened)


def test_an_unknown_run_is_explained(server: Served) -> None:
    with server.socket("/api/live?run=..%2Fnope") as opened, pytest.raises(ConnectionClosed):
        opened.recv(WAIT_S)
    assert opened.close_code == live.UNKNOWN
    assert opened.close_reason is not None
    assert "there is no run" in opened.close_reason


def test_the_list_of_runs_has_a_socket_too(server: Served, job: RunBuilder) -> None:
    with server.socket() as opened:
        before = next_message(opened)
        two_rank_run(job.folder.parent / "another")
        deadline_s = time.monotonic() + WAIT_S
        while next_message(opened)["version"] == before["version"]:
            assert time.monotonic() < deadline_s


class SlowSocket:
    """A browser that takes no message until it is let."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.may_take = asyncio.Event()

    async def send_json(self, content: dict[str, int]) -> None:
        self.taken.append(content["version"])
        await self.may_take.wait()


def test_a_slow_browser_gets_the_newest_only() -> None:
    async def watch() -> list[int]:
        slow, news, version = SlowSocket(), asyncio.Event(), 0

        async def message() -> dict[str, object]:
            return {"version": version}

        sender = asyncio.create_task(live._send(slow, message, news, 0.0))  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        for _ in range(50):
            version += 1
            news.set()
            await asyncio.sleep(0.002)
        slow.may_take.set()
        await asyncio.sleep(0.5)
        sender.cancel()
        return slow.taken

    assert asyncio.run(watch()) == [0, 50]


def test_sockets_that_end_leave_nothing_behind(server: Served) -> None:
    for _ in range(5):
        with server.socket("/api/live?run=job") as opened:
            next_message(opened)
    wait_until(lambda: b"rankscope_live_sockets 0" in server.ask("/metrics")[1])
    assert server.hub._listeners == []
