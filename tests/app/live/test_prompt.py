"""Prompts by way of the server: all ranks take it and go, or none does; hostile ones go to none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.settings import Settings
from tests.app.server.ranks import JOB_TOKEN, Rank, post, ranks
from tests.app.server.served import Served, served
from trace_hooks.protocol.prompts import Prompt, Word, server_request

ALL = 8
REQUEST = {"text": "5 7 9", "tokens": 4, "layers": [0]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(
        tmp_path_factory.mktemp("runs"), Settings(port=0, job_token=JOB_TOKEN)
    ) as running_server:
        yield running_server


def listening(rank: Rank, refuses: str = "") -> list[Prompt | Word]:
    """Have a rank take prompts, or refuse them with a sentence; returns what it receives."""
    received: list[Prompt | Word] = []

    def take(value: Any) -> str:
        received.append(server_request(value))
        if refuses and isinstance(received[-1], Prompt):
            raise ValueError(refuses)
        return "taken"

    rank.live.commands.register("prompt", take)
    return received


def prompt(server: Served, run: str, args: Any) -> tuple[int, Any]:
    return post(server, run, {"name": "prompt", "args": args}, "/api/command")


def test_all_ranks_go_after_the_same_step_or_none_does(server: Served) -> None:
    with ranks(server, "all", ALL) as job_ranks:
        received = [listening(one) for one in job_ranks]
        status, answer = prompt(server, "all", REQUEST)
        assert (status, len(answer["acks"]), answer["silent"]) == (200, ALL, [])
        for first, second in received:
            assert isinstance(first, Prompt)
            assert (first.text, first.step, first.id) == ("5 7 9", answer["step"], answer["id"])
            assert second == Word(answer["id"], True)
        received[5] = listening(job_ranks[5], refuses="this rank is busy")
        status, answer = prompt(server, "all", REQUEST)
        assert (status, answer["step"]) == (200, None)
        assert [ack["text"] for ack in answer["acks"] if not ack["ok"]] == ["this rank is busy"]
        assert all(one[-1] == Word(answer["id"], False) for one in received)


def test_a_prompt_takes_all_ranks(server: Served) -> None:
    with ranks(server, "some", world_size=ALL) as job_ranks:
        received = [listening(one) for one in job_ranks]
        status, answer = prompt(server, "some", REQUEST)
        assert (status, received) == (400, [[], []])
        assert "2 of 8 ranks are connected" in answer["error"]
        for more, words in (
            ({"temperature": float("nan")}, "NaN is not a number in JSON"),
            ({"tokens": 10**9}, "tokens is 1000000000"),
            ({"text": "a" * 30_000}, "30000 charac"),
            ({"layers": "__import__('os')"}, "layers are"),
            ({"id": "p1"}, "the server sets"),
            ({"step": 3}, "the server sets"),
            ({"go": "p1"}, "has no 'go'"),
        ):
            status, answer = prompt(server, "some", REQUEST | more)
            assert (status, words in answer["error"]) == (400, True), answer
        assert received == [[], []]
