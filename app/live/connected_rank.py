"""One rank as the server knows it: its hello, its heartbeats, commands and their answers.

For one event loop.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from trace_hooks.protocol.job_claims import VERSION
from trace_hooks.protocol.perturbations import MAX_PERTURBATIONS, Perturbation
from trace_hooks.protocol.watches import MAX_WATCHES, Watch

ACK_S = 3.0
"""Time limit for a rank's answer to a command; its agent's thread answers, so training goes on."""
CONNECTED, GONE, ENDED = STATES = ("connected", "gone", "ended")
_MOST_WAITING = 64
"""At most this many commands queued for one rank."""
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]{0,119}")
_SECRET = re.compile(r"[\x21-\x7e]{32,200}")
_START = re.compile(r"[A-Za-z0-9-]{8,64}")
_LONGEST_TEXT, _LONGEST_NAME = 500, 40
_MOST_LAYERS, _MOST_COSTS = 1_024, 16
_LARGEST_COST = 1e15
"""The costs of all ranks are added up, and the sum must be a valid JSON number."""


class OtherVersion(ValueError):
    """The hooks of a rank are of another version than this server."""


@dataclass
class Hello:
    """How a rank introduces itself; raises ValueError naming what is wrong.

    `start`: id of the job's start that owns the attempt. `secret`: of the run.
    """

    run: str
    attempt: int
    rank: int
    world_size: int
    allow_content: bool = False
    allow_perturbation: bool = False
    what: dict[str, Any] = field(default_factory=dict)
    watches: tuple[Watch, ...] = ()
    start: str = ""
    secret: str = field(default="", repr=False)

    @property
    def claim(self) -> tuple[str, int, int, str]:
        """What a connection may write while it is open: run, attempt, rank and start."""
        return self.run, self.attempt, self.rank, self.start

    @classmethod
    def from_json(cls, message: Mapping[str, Any]) -> Hello:
        """The hello from an agent's message; raises OtherVersion, ValueError."""
        if message.get("version") != VERSION:
            raise OtherVersion(
                f"these hooks speak version {str(message.get('version', 1))[:9]}, the server "
                f"{VERSION}; install the server's version of rankscope-hooks"
            )
        run, what = message.get("run"), message.get("what", {})
        watches = message.get("watches", [])
        if not isinstance(run, str) or not _RUN_NAME.fullmatch(run):
            raise ValueError("the hello names no run; rank and server may differ in version")
        world_size = _whole(message, "world_size", 1, 1 << 20)
        if not isinstance(what, dict) or not isinstance(watches, list):
            raise ValueError("the hello's what or watches are malformed")
        return cls(
            run,
            _whole(message, "attempt", 0, (1 << 15) - 1),
            _whole(message, "rank", 0, world_size - 1),
            world_size,
            message.get("allow_content") is True,
            message.get("allow_perturbation") is True,
            _layers_and_heads(what),
            tuple(Watch.from_json(watch) for watch in watches[:MAX_WATCHES]),
            _matching(message, "start", _START),
            _matching(message, "secret", _SECRET),
        )


def _layers_and_heads(what: Mapping[str, Any]) -> dict[str, Any]:
    """Only what can be captured on a rank: the server stores it for every rank."""
    layers = what.get("layers")
    watchable: dict[str, Any] = {}
    if isinstance(layers, list) and len(layers) <= _MOST_LAYERS and set(map(type, layers)) <= {int}:
        watchable["layers"] = layers
    if type(what.get("heads")) is int:
        watchable["heads"] = what["heads"]
    return watchable


def _cost(cost: Mapping[str, Any]) -> dict[str, Any]:
    """What a capture request costs, from a heartbeat: its id, a text and some numbers."""
    texts = {name: str(cost[name])[:_LONGEST_TEXT] for name in ("id", "text") if name in cost}
    numbers = {
        name: value
        for name, value in cost.items()
        if type(value) in (int, float)
        and abs(value) <= _LARGEST_COST
        and len(name) <= _LONGEST_NAME
        and name not in texts
    }
    return texts | dict(islice(numbers.items(), _MOST_COSTS))


def _whole(message: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = message.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} is {str(value)[:40]!r}; it must be a number {least} to {most}")
    return value


def _matching(message: Mapping[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    value = message.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(
            f"the hello's {name} is malformed; is TRACE_HOOKS_SERVER set on all ranks?"
        )
    return value


@dataclass(frozen=True)
class Ack:
    """A rank's answer to a command."""

    attempt: int
    rank: int
    ok: bool
    text: str
    refused: frozenset[str] = frozenset()
    """ids of capture requests that it refuses"""

    def as_json(self) -> dict[str, Any]:
        """The answer for the page that sent the command."""
        return {"attempt": self.attempt, "rank": self.rank, "ok": self.ok, "text": self.text}


class ConnectedRank:
    """One rank's connection to the server."""

    def __init__(self, hello: Hello) -> None:
        self.hello = hello
        self.state = CONNECTED
        self.step = -1
        self.steps_per_s = 0.0
        self.phase = ""
        self.sent = self.thinned = self.received = 0
        self.costs: list[dict[str, Any]] = []
        self.perturbations: tuple[Perturbation, ...] = ()
        """requested and not over, by the last heartbeat"""
        self.commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_MOST_WAITING)
        self.replaced = asyncio.Event()
        """the rank has connected again on another socket"""
        self._seen_s = self._beat_s = time.monotonic()
        self._waiting: dict[str, asyncio.Future[Ack]] = {}

    @property
    def key(self) -> tuple[int, int]:
        """Attempt and rank."""
        return self.hello.attempt, self.hello.rank

    def beat(self, message: Mapping[str, Any]) -> None:
        """Update the state from a heartbeat; raises ValueError."""
        self._count_steps(_whole(message, "step", -1, (1 << 62)))
        self.sent = _whole(message, "sent", 0, 1 << 62)
        self.thinned = _whole(message, "thinned", 0, 1 << 62)
        self.phase = str(message.get("phase", ""))[:40]
        costs = message.get("watches", [])
        if not isinstance(costs, list):
            raise ValueError("the heartbeat's watches are not a list")
        self.costs = [_cost(cost) for cost in costs[:MAX_WATCHES] if isinstance(cost, dict)]
        perturbations = message.get("perturbations", [])
        if not isinstance(perturbations, list):
            raise ValueError("the heartbeat's perturbations are not a list")
        self.perturbations = tuple(map(Perturbation.from_json, perturbations[:MAX_PERTURBATIONS]))
        self.seen()

    def _count_steps(self, step: int) -> None:
        now_s = time.monotonic()
        if self.step >= 0 and now_s > self._beat_s:
            self.steps_per_s = max(0, step - self.step) / (now_s - self._beat_s)
        self.step, self._beat_s = step, now_s

    def seen(self) -> None:
        """Note that a message has arrived from the rank."""
        self._seen_s = time.monotonic()

    @property
    def age_s(self) -> float:
        """Seconds since the last message."""
        return time.monotonic() - self._seen_s

    def acknowledge(self, message: Mapping[str, Any]) -> None:
        """Process an ack; ignore it if its command no longer waits for one."""
        waiting = self._waiting.get(str(message.get("id")))
        if waiting is not None and not waiting.done():
            text = str(message.get("text", ""))[:_LONGEST_TEXT]
            refused = message.get("refused", [])
            if not isinstance(refused, list):
                raise ValueError("the refused watches of an ack are not a list")
            ids = frozenset(str(name)[:_LONGEST_TEXT] for name in refused[:MAX_WATCHES])
            waiting.set_result(Ack(*self.key, message.get("ok") is True, text, ids))

    async def ask(self, command: dict[str, Any]) -> Ack | None:
        """Send a command and wait for its ack; None if none arrives in time."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[command["id"]] = waiting
        try:
            self.commands.put_nowait(command)
            return await asyncio.wait_for(waiting, ACK_S)
        except (TimeoutError, asyncio.QueueFull):
            return None
        finally:
            del self._waiting[command["id"]]

    def send(self, command: dict[str, Any]) -> None:
        """Send a command without waiting for its ack."""
        if not self.commands.full():
            self.commands.put_nowait(command)

    def as_json(self) -> dict[str, Any]:
        """The rank as a page shows it."""
        hello = self.hello
        return {
            "attempt": hello.attempt,
            "rank": hello.rank,
            "state": self.state,
            "age_s": round(self.age_s, 3),
            "step": self.step,
            "phase": self.phase,
            "allow_content": hello.allow_content,
            "allow_perturbation": hello.allow_perturbation,
            "what": hello.what,
            "sent": self.sent,
            "thinned": self.thinned,
            "watches": self.costs,
        }
