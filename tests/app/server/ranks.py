"""Ranks of a job that is not there: real agents and bare sockets, to a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from tests.app.server.served import WAIT_S, Served
from tests.waiting import wait_until
from trace_hooks.agent.connection import Agent
from trace_hooks.job.identity import Identity, Shared
from trace_hooks.job.process_info import Place
from trace_hooks.protocol.job_claims import DIGEST_FILE, digest_of
from trace_hooks.protocol.server_address import Address
from trace_hooks.protocol.watches import Watch, watches_of
from trace_hooks.recording.commands import Live, Refused
from trace_hooks.recording.rank_state import RankState

JOB_TOKEN = "a-secret-of-jobs"
RUN_SECRET = "the-secret-that-the-ranks-of-one-run-share"
START = "start-of-these-tests"
BEARER = {"Authorization": f"Bearer {JOB_TOKEN}"}


class Rank:
    """An agent, and a source that takes watches of layers 0 to 3."""

    def __init__(
        self,
        address: str,
        rank: int,
        run: str,
        token: str = JOB_TOKEN,
        world_size: int = 8,
        attempt: int = 0,
        meeting: Path | None = None,
    ) -> None:
        self.rank_state, self.live = RankState(), Live()
        self.watches: list[Watch] = []
        live = self.live
        live.commands.register("watch", self._watch)
        live.about["allow_content"] = lambda: True
        live.about["watches"] = lambda: [watch.to_json() for watch in self.watches]
        live.beats["watches"] = lambda: [
            {"id": watch.id, "cost_ms_per_step": 1.0 + rank, "bytes_per_s": 100}
            for watch in self.watches
        ]
        where = Address(f"ws://{address}", token)
        self.agent = Agent(where, self.rank_state, live, meeting=meeting)
        identity = Identity(
            Shared(run, attempt, 0, "d", 0, 0, START, RUN_SECRET),
            Place(rank, world_size, 0, True),
            Path("runs"),
        )
        self.agent.place(identity)
        self.agent.start()

    def _watch(self, value: Any) -> str:
        wanted = watches_of(value)
        unknown = [layer for one in wanted for layer in one.layers or () if layer > 3]
        if unknown:
            raise Refused(f"there is no layer {unknown[0]} here", [one.id for one in wanted])
        self.watches = wanted
        return f"watching {len(wanted)}"


def of_these_ranks(run: Path) -> None:
    """Make a run folder that of these ranks, as a job does that writes there itself."""
    (run / DIGEST_FILE).write_text(digest_of(RUN_SECRET))


@contextmanager
def ranks(
    server: Served,
    run: str,
    num: int = 2,
    world_size: int | None = None,
    meeting: Path | None = None,
) -> Iterator[list[Rank]]:
    """Connected ranks of a run; all that it has, where no size is given. Once more: a restart.

    `meeting`: the folder in which the relay of their host listens, if it has one.
    """
    size = world_size or num
    attempt = sum(1 for _ in (server.hub.store.folder / run).glob("attempts/*"))
    rows = [
        Rank(server.address, rank, run, world_size=size, attempt=attempt, meeting=meeting)
        for rank in range(num)
    ]
    try:
        wait_until(lambda: state(server, run).get("connected") == num)
        yield rows
    finally:
        for one in rows:
            one.agent.stop()


def state(server: Served, run: str, **headers: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(server.ask(f"/api/watch?run={run}", **headers)[1])
    return answer


def post(
    server: Served, run: str, content: Any, path: str = "/api/watch", **headers: str
) -> tuple[int, dict[str, Any]]:
    status, body = server.ask(f"{path}?run={run}", "POST", json.dumps(content).encode(), **headers)
    return status, json.loads(body)


def hello(run: str = "raw", **more: Any) -> str:
    message = {
        "type": "hello",
        "version": 2,
        "run": run,
        "attempt": 0,
        "rank": 0,
        "world_size": 8,
        "secret": RUN_SECRET,
        "start": START,
    }
    return json.dumps({**message, **more})


@contextmanager
def line(server: Served, **headers: str) -> Iterator[ClientConnection]:
    """A bare socket of a rank."""
    named = {"additional_headers": headers or BEARER}
    with server.socket("/agent", compression=None, **named) as opened:
        yield opened


def refusal(opened: ClientConnection) -> tuple[int | None, str | None]:
    """Close code and reason with which the server ends a socket."""
    try:
        while True:
            opened.recv(WAIT_S)
    except ConnectionClosed:
        return opened.close_code, opened.close_reason
