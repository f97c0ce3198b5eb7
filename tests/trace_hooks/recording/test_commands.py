"""Commands of the server: carried out where they are registered, else refused."""

from __future__ import annotations

import pytest

from trace_hooks.recording import guard
from trace_hooks.recording.commands import Commands


def test_a_command_is_carried_out_where_it_is_registered() -> None:
    commands = Commands()
    commands.register("double", lambda value: f"twice is {2 * value['n']}")
    message = {"type": "command", "id": "c7", "name": "double", "args": {"n": 4}}
    assert commands.answer(message) == {"type": "ack", "id": "c7", "ok": True, "text": "twice is 8"}
    assert commands.answer({"type": "welcome"}) is None


def test_a_watch_is_the_command_of_that_name() -> None:
    commands = Commands()
    commands.register("watch", lambda value: f"{len(value)} watches")
    ack = commands.answer({"type": "watch", "id": "c1", "watches": [{}, {}]})
    assert ack == {"type": "ack", "id": "c1", "ok": True, "text": "2 watches"}


@pytest.mark.parametrize("name", ["__import__('os')", "", None, 5, ["double"], {"a": 1}])
def test_an_unknown_command_is_refused(name: object) -> None:
    commands = Commands()
    commands.register("double", str)
    ack = commands.answer({"type": "command", "id": "c1", "name": name, "args": {}})
    assert ack is not None
    assert ack["ok"] is False
    assert ack["text"].endswith("it has: double")


def test_a_refusal_has_its_reason_and_a_failure_is_counted() -> None:
    def refuse(_value: object) -> str:
        raise ValueError("there is no layer 99; this rank has 0 to 3")

    commands = Commands()
    commands.register("refuse", refuse)
    commands.register("fail", lambda value: value["missing"])
    ask = {"type": "command", "id": "c1", "args": {}}
    refused = commands.answer({**ask, "name": "refuse"})
    assert refused is not None
    assert (refused["ok"], refused["text"]) == (False, "there is no layer 99; this rank has 0 to 3")
    guard.account.reset()
    failed = commands.answer({**ask, "name": "fail"})
    assert failed is not None
    assert failed["ok"] is False
    assert "failed on this rank" in failed["text"]
    assert guard.account.errors == {"agent.fail": 1}
    guard.account.reset()
