"""The ranks that are connected, what is watched in each run, and commands with their answers.

For one event loop: routes of sockets and requests call it, no thread does.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from app.live.claims import NotYours
from app.live.commands import perturb
from app.live.connected_rank import CONNECTED, ENDED, GONE, STATES, Ack, Hello, LiveRank
from app.live.first_step import with_first_step
from app.live.shipped_files import ReceivedFiles
from ingest.errors import UserError
from trace_hooks.protocol import capture_request
from trace_hooks.protocol.perturbations import PERTURB
from trace_hooks.protocol.watches import MAX_WATCHES, Watch

MOST_RUNS = 64
MOST_RANKS = 16_384


class Crowded(UserError):
    """There are as many ranks or runs as the server keeps."""


class LiveRun:
    """The ranks of one run and what is watched in it."""

    def __init__(self) -> None:
        self.ranks: dict[tuple[int, int], LiveRank] = {}
        self.newest_attempt = 0
        self.files: dict[int, ReceivedFiles] = {}
        """of ranks that send theirs, by rank"""
        self.watches: dict[str, Watch] = {}
        self.is_set = False
        """somebody has said here what is watched; until then the ranks' own watches hold, such as
        those of before this server was started"""

    @property
    def connected(self) -> list[LiveRank]:
        """Ranks that are connected now, in order."""
        return [self.ranks[key] for key in sorted(self.ranks) if self.ranks[key].state == CONNECTED]

    def num(self, state: str) -> int:
        """Ranks of the newest attempt in a state: connected, gone or ended."""
        newest = self.newest_attempt
        return sum(one.state == state and key[0] == newest for key, one in self.ranks.items())

    def begin_attempt(self, number: int) -> None:
        """The job was started again: ranks of before that have left are forgotten."""
        self.newest_attempt = number
        self.ranks = {
            key: one
            for key, one in self.ranks.items()
            if key[0] == number or one.state == CONNECTED
        }

    def command(self, number: int) -> dict[str, Any]:
        """What tells a rank all that is watched."""
        watches = [watch.to_json() for watch in self.watches.values()]
        return {"type": "watch", "id": f"c{number}", "watches": watches}

    def forget_ended(self) -> None:
        """Drop watches that every connected rank has passed the end of."""
        steps = [one.step for one in self.connected]
        if steps:
            self.watches = {
                name: watch
                for name, watch in self.watches.items()
                if watch.until is None or min(steps) <= watch.until
            }

    def costs(self) -> dict[str, dict[str, float]]:
        """By watch, over the ranks: what is per step the greatest, all else added up."""
        found: dict[str, dict[str, float]] = {}
        for rank in self.connected:
            for one in rank.costs:
                total = found.setdefault(str(one.get("id"))[:60], {})
                for name, value in one.items():
                    if isinstance(value, int | float) and not isinstance(value, bool):
                        old = total.get(name, 0)
                        total[name] = max(old, value) if name.endswith("_per_step") else old + value
        return found

    def state(self) -> dict[str, Any]:
        """What all who watch are told each second."""
        self.forget_ended()
        connected = self.connected
        return {
            "type": "state",
            "watches": [watch.to_json() for watch in self.watches.values()],
            **{state: self.num(state) for state in STATES},
            "step": max((one.step for one in connected), default=None),
            "frames": sum(one.received for one in self.ranks.values()),
            "thinned": sum(one.thinned for one in self.ranks.values()),
            "costs": self.costs(),
        }


class LiveRanks:
    """All runs that a rank has told of."""

    def __init__(self, on_forget: Callable[[str], object] = str) -> None:
        self.runs: OrderedDict[str, LiveRun] = OrderedDict()
        self._on_forget = on_forget  # called with the name of a run that is let go of
        self._numbers = count(1)

    def run(self, name: str) -> LiveRun:
        """The run of that name; raises UserError where no rank of it has ever connected."""
        found = self.runs.get(name)
        if found is None:
            raise UserError(
                f"no rank of {name[:120]!r} is connected; a job is watched live where it was "
                "started with TRACE_HOOKS_SERVER and TRACE_HOOKS_TOKEN (docs/remote.md)"
            )
        return found

    def enter(self, hello: Hello) -> LiveRank:
        """A rank has connected; raises Crowded where there is no place for another, NotYours where
        it has said good-bye.
        """
        run = self._run_of(hello)
        rank = LiveRank(hello)
        old = run.ranks.get(rank.key)
        if old is not None and old.state == ENDED:
            raise NotYours(f"rank {hello.rank} has ended attempt {hello.attempt}")
        while old is None and sum(len(one.ranks) for one in self.runs.values()) >= MOST_RANKS:
            self._let_one_go(hello.run, f"{MOST_RANKS} ranks are connected to this server already")
        if old is not None:
            old.replaced.set()
        run.ranks[rank.key] = rank
        if hello.attempt > run.newest_attempt:
            run.begin_attempt(hello.attempt)
        self._settle(run, rank)
        return rank

    def again(self, rank: LiveRank, hello: Hello) -> None:
        """A rank says anew who it is, such as when its layout became known."""
        if hello.claim != rank.hello.claim:
            raise ValueError("a rank that has said who it is cannot become another one")
        rank.hello = replace(hello, secret="")

    def is_connected(self, name: str) -> bool:
        """Whether a rank of this run is connected; also for other threads."""
        run = self.runs.get(name)
        return run is not None and any(one.state == CONNECTED for one in list(run.ranks.values()))

    def leave(self, rank: LiveRank) -> None:
        """A rank's socket has closed."""
        if rank.state == CONNECTED:
            rank.state = GONE

    async def watch(
        self, name: str, watches: Iterable[Watch], ended: Iterable[str]
    ) -> dict[str, Any]:
        """Begin (or replace) and end watches; what is watched then, and what the ranks say of it.

        What every rank that answers refuses is not watched. Raises UserError.
        """
        run = self.run(name)
        self._require_connected(run, name)
        run.forget_ended()
        left_out = set(ended)
        wanted = {key: one for key, one in run.watches.items() if key not in left_out}
        wanted |= {watch.id: watch for watch in watches}
        if len(wanted) > MAX_WATCHES:
            raise UserError(f"{len(wanted)} watches at once; end some, {MAX_WATCHES} are possible")
        run.watches, run.is_set = wanted, True
        acks, silent = await self._ask(run.connected, run.command(next(self._numbers)))
        if acks:
            for refused in frozenset.intersection(*(ack.refused for ack in acks)):
                run.watches.pop(refused, None)
        return {
            "watches": [watch.to_json() for watch in run.watches.values()],
            "acks": [ack.as_json() for ack in acks],
            "silent": silent,
        }

    async def command(
        self, name: str, command: str, args: Any, ranks: Sequence[int] | None
    ) -> dict[str, Any]:
        """Send a command to these ranks (None: all, of a perturbation those with its layer) and
        gather their answers; `args` are what they were sent.

        Raises UserError, and ValueError for wrong arguments of a command that is known here.
        """
        run = self.run(name)
        self._require_connected(run, name)
        chosen = [one for one in run.connected if ranks is None or one.hello.rank in ranks]
        if not chosen:
            raise UserError(f"none of the ranks {str(ranks)[:80]} of {name} is connected")
        if command == PERTURB:
            return await perturb(args, chosen, ranks is None, self._send)
        if command == capture_request.COMMAND:
            args = with_first_step(args, chosen)
        acks, silent = await self._send(chosen, command, args)
        return {"acks": [ack.as_json() for ack in acks], "silent": silent, "args": args}

    async def _send(
        self, ranks: Sequence[LiveRank], command: str, args: Any
    ) -> tuple[list[Ack], list[int]]:
        told = {"type": "command", "id": f"c{next(self._numbers)}", "name": command, "args": args}
        return await self._ask(ranks, told)

    async def _ask(
        self, ranks: Sequence[LiveRank], command: dict[str, Any]
    ) -> tuple[list[Ack], list[int]]:
        """What ranks say to a command, and those that said nothing in time."""
        answers = await asyncio.gather(*(rank.ask(command) for rank in ranks))
        silent = [rank.hello.rank for rank, ack in zip(ranks, answers, strict=True) if ack is None]
        return [ack for ack in answers if ack is not None], silent

    def _settle(self, run: LiveRun, rank: LiveRank) -> None:
        """Agree with a rank that has just come on what is watched."""
        if not run.is_set:
            for watch in rank.hello.watches:
                if len(run.watches) < MAX_WATCHES:
                    run.watches.setdefault(watch.id, watch)
        if {watch.id: watch for watch in rank.hello.watches} != run.watches:
            rank.send(run.command(next(self._numbers)))

    def _run_of(self, hello: Hello) -> LiveRun:
        found = self.runs.get(hello.run)
        if found is not None:
            return found
        if len(self.runs) >= MOST_RUNS:
            self._let_one_go("", f"ranks of {MOST_RUNS} runs are connected to this server already")
        return self.runs.setdefault(hello.run, LiveRun())

    def _let_one_go(self, but: str, why_not: str) -> None:
        """Forget the first run that no rank is connected of; raises Crowded where there is none."""
        over = next((n for n, run in self.runs.items() if n != but and not run.connected), None)
        if over is None:
            raise Crowded(why_not)
        del self.runs[over]
        self._on_forget(over)

    def _require_connected(self, run: LiveRun, name: str) -> None:
        if not run.connected:
            raise UserError(f"no rank of {name} is connected any more; nothing can be watched live")
