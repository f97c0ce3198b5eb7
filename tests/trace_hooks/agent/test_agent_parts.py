"""What the agent is made of: its box of frames, its commands, its address, its pace."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from trace_hooks.agent import log_messages
from trace_hooks.agent.frame_buffer import Outbox
from trace_hooks.agent.log_messages import FewWarnings
from trace_hooks.protocol.frames import Frame, stored
from trace_hooks.protocol.plain_text import LONGEST, plain
from trace_hooks.protocol.server_address import Address, read_address
from trace_hooks.protocol.token_bucket import Rate
from trace_hooks.recording import guard
from trace_hooks.recording.commands import Commands
from trace_hooks.settings import read_settings


def frame(step: int = 0, head: int = 0, num_bytes: int = 8, **more: object) -> Frame:
    kept = stored(np.full(num_bytes // 2, step, dtype=np.float32))
    values = {
        "step": step,
        "ts_ns": 1,
        "watch": "w1",
        "what": "attention",
        "layer": 1,
        "name": "a",
        "shape": (num_bytes // 2,),
        "dtype": kept.dtype,
        "data": kept.data,
        "scale": kept.scale,
        "head": head,
        "sample": 0,
    }
    return Frame(**{**values, **more})  # type: ignore[arg-type]


def test_newer_frames_take_the_place_of_older_ones_with_the_same_key() -> None:
    box = Outbox()
    for step in range(3):
        for head in (0, 1):
            box.put(frame(step, head))
    box.put(frame(0, 0, shard="tp=1"))
    taken = [box.take(0.0) for _ in range(4)]
    assert [(one.step, one.head, one.shard) if one else None for one in taken] == [
        (2, 0, ""),
        (2, 1, ""),
        (0, 0, "tp=1"),
        None,
    ]
    assert box.thinned == 4
    assert box.num_bytes == 0


def test_the_box_is_bounded_and_keeps_what_is_newest() -> None:
    box = Outbox(most_bytes=100)
    for head in range(50):
        box.put(frame(0, head, num_bytes=40))
        assert box.num_bytes <= 100
    box.put(frame(0, 99, num_bytes=102))
    assert [one.head for one in iter(lambda: box.take(0.0), None)] == [48, 49]
    assert box.thinned == 49


def test_a_wake_ends_the_wait_of_who_takes() -> None:
    box = Outbox()
    taken: list[Frame | None] = []
    waiting = threading.Thread(target=lambda: taken.append(box.take(60.0)))  # type: ignore[arg-type]
    waiting.start()
    box.wake()
    waiting.join(20)
    assert taken == [None]


def test_a_command_is_carried_out_by_who_registered_it() -> None:
    commands = Commands()
    commands.register("double", lambda value: f"twice is {2 * value['n']}")
    told = {"type": "command", "id": "c7", "name": "double", "args": {"n": 4}}
    assert commands.answer(told) == {"type": "ack", "id": "c7", "ok": True, "text": "twice is 8"}
    assert commands.answer({"type": "welcome"}) is None


def test_a_watch_is_the_command_of_that_name() -> None:
    commands = Commands()
    commands.register("watch", lambda value: f"{len(value)} watches")
    ack = commands.answer({"type": "watch", "id": "c1", "watches": [{}, {}]})
    assert ack == {"type": "ack", "id": "c1", "ok": True, "text": "2 watches"}


@pytest.mark.parametrize("name", ["__import__('os')", "", None, 5, ["double"], {"a": 1}])
def test_a_command_that_is_none_is_refused(name: object) -> None:
    commands = Commands()
    commands.register("double", str)
    ack = commands.answer({"type": "command", "id": "c1", "name": name, "args": {}})
    assert ack is not None
    assert ack["ok"] is False
    assert ack["text"].endswith("it has: double")


def test_a_refusal_is_told_and_a_failure_is_counted() -> None:
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


def test_the_address_comes_from_the_environment() -> None:
    assert read_address({}) is None
    environ = {"TRACE_HOOKS_SERVER": "ws://login:8050/hub/", "TRACE_HOOKS_TOKEN": "secret-secret"}
    found = read_address(environ)
    assert found is not None
    assert (found.url, found.host_and_port) == ("ws://login:8050/hub/agent", ("login", 8050))
    assert "secret-secret" not in repr(found)
    assert Address("wss://[::1]", "t").host_and_port == ("::1", 443)


@pytest.mark.parametrize(
    "server",
    [
        "login:8050",
        "http://login",
        "ws://",
        "ws://login:x",
        "ws://a?b=c",
        "ws://u:p@login",
        "ws:/x",
    ],
)
def test_an_address_that_is_none_is_refused(server: str) -> None:
    with pytest.raises(ValueError, match=r"TRACE_HOOKS_SERVER is .*; give the address"):
        Address(server, "secret-secret")


@pytest.mark.parametrize("token", ["", "two\nlines", "ü" * 9])
def test_a_server_without_a_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="TRACE_HOOKS_TOKEN must hold the job token"):
        Address("ws://login", token)


def test_warnings_are_few_and_those_left_out_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    monkeypatch.setattr(
        log_messages, "Rate", lambda per_s, burst: Rate(per_s, burst, lambda: now_s)
    )
    warnings = FewWarnings("the dashboard says")
    for number in (1, 1, 2, 3, 4, 5, 6, 7):
        warnings.warn(f"number {number}")
    assert [record.getMessage()[-1] for record in caplog.records] == list("12345")
    now_s = log_messages.EVERY_S + 1
    warnings.warn("number 8")
    warnings.warn("number 9")
    assert caplog.messages[5:] == [
        "trace_hooks: the dashboard says: number 8 (2 warnings before this were left out)"
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 値", "plain ü 値"),
        ("a\nb\r\x1b[2J\x00", r"a\nb\r\x1b[2J\x00"),
        ("\u202e\x9b\ud800", r"\u202e\x9b\ud800"),
        (None, "None"),
        (["\n"], r"['\n']"),
    ],
)
def test_text_from_elsewhere_is_made_visible(text: object, shown: str) -> None:
    assert plain(text) == shown


def test_text_from_elsewhere_is_cut() -> None:
    for text in ("x" * 10**6, "\n" * 10**6):
        assert len(plain(text)) == LONGEST
        assert plain(text).endswith("…")


def test_files_are_sent_only_where_there_is_a_server() -> None:
    with pytest.raises(ValueError, match="TRACE_HOOKS_SHIP needs TRACE_HOOKS_SERVER"):
        read_settings({"TRACE_HOOKS_SHIP": "1"})
    server = {"TRACE_HOOKS_SERVER": "ws://login", "TRACE_HOOKS_TOKEN": "secret-secret"}
    assert not read_settings(server).ships
    assert read_settings({"TRACE_HOOKS_SHIP": "1", **server}).ships


def test_a_rate_lets_a_burst_pass_and_then_so_many_a_second() -> None:
    now_s = 0.0
    rate = Rate(10.0, 20.0, lambda: now_s)
    assert [rate.take() for _ in range(21)] == [True] * 20 + [False]
    now_s = 0.5
    assert [rate.take() for _ in range(6)] == [True] * 5 + [False]
    now_s = 100.0
    assert rate.wait_s(50.0) == 0.0  # more than a burst passes once it is full
    rate.spend(50.0)
    assert rate.wait_s(1.0) == pytest.approx(3.1)
