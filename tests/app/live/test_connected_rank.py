"""One rank as the server knows it: its hello, its heartbeats, commands and their answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.live import connected_rank
from app.live.connected_rank import Ack, ConnectedRank, Hello, OtherVersion
from trace_hooks.protocol.job_claims import VERSION

HELLO = {
    "version": VERSION,
    "run": "job",
    "attempt": 0,
    "rank": 1,
    "world_size": 2,
    "start": "a-start-of-it",
    "secret": "x" * 32,
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"run": "../x"}, "names no run"),
        ({"rank": 2}, "rank is '2'; it must be a number 0 to 1"),
        ({"world_size": True}, "world_size"),
        ({"what": []}, "what or watches are malformed"),
        ({"secret": "short"}, "secret is malformed"),
    ],
)
def test_a_malformed_hello_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Hello.from_json({**HELLO, **change})


def test_another_version_is_named() -> None:
    with pytest.raises(OtherVersion, match="install the server's version"):
        Hello.from_json({**HELLO, "version": VERSION + 1})


def test_of_a_heartbeat_only_bounded_numbers_are_stored() -> None:
    rank = ConnectedRank(Hello.from_json(HELLO))
    cost = {"id": "w", "ms_per_step": 1.5, "huge": 1e300, "text": "x" * 10_000}
    rank.beat({"step": 7, "sent": 3, "thinned": 0, "watches": [cost], "phase": "forward"})
    assert (rank.step, rank.sent, rank.phase) == (7, 3, "forward")
    assert rank.costs == [{"id": "w", "text": "x" * 500, "ms_per_step": 1.5}]
    with pytest.raises(ValueError, match="not a list"):
        rank.beat({"step": 7, "sent": 3, "thinned": 0, "watches": "w"})


def test_a_command_waits_for_its_ack_and_not_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = ConnectedRank(Hello.from_json(HELLO))

    async def steps() -> tuple[Ack | None, Ack | None]:
        asking = asyncio.create_task(rank.ask({"id": "c1"}))
        await rank.commands.get()
        rank.acknowledge({"id": "c1", "ok": True, "text": "done"})
        rank.acknowledge({"id": "unknown"})
        monkeypatch.setattr(connected_rank, "ACK_S", 0.01)
        return await asking, await rank.ask({"id": "c2"})

    answered, silent = asyncio.run(steps())
    assert answered == Ack(0, 1, True, "done")
    assert silent is None
