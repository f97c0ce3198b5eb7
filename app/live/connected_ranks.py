"""The connected ranks, the capture requests of each run, and commands with their answers.

For one event loop: routes of sockets and requests call it, threads do not.
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
from app.live.connected_rank import CONNECTED, ENDED, GONE, STATES, Ack, ConnectedRank, Hello
from app.live.first_step import with_first_step
from app.live.shipped_files import ShippedFiles
from ingest.errors import UserError
from trace_hooks.protocol import capture_request
from trace_hooks.protocol.perturbations import PERTURB
from trace_hooks.protocol.watches import MAX_WATCHES, Watch

MOST_RUNS = 64
MOST_RANKS = 16_384


class Crowded(UserError):
    """The server has the maximum number of connected ranks or runs."""


class LiveRun:
    """The ranks of one run and its capture requests."""

    def __init__(self) -> None:
        self.ranks: dict[tuple[int, int], ConnectedRank] = {}
        self.newest_attempt = 0
        self.files: dict[int, ShippedFiles] = {}
        """of ranks that send their files, by rank"""
        self.watches: dict[str, Watch] = {}
        self.is_set = False
        """whether somebody has set capture requests here; until then the ranks' own are valid, such
        as those from before this server started
        """

    @property
    def connected(self) -> list[ConnectedRank]:
        """The connected ranks, in order."""
        return [self.ranks[key] for key in sorted(self.ranks) if self.ranks[key].state == CONNECTED]

    def num(self, state: str) -> int:
        """Number of ranks of the newest attempt in a state: connected, gone or ended."""
        newest = self.newest_attempt
        return sum(rank.state == state and key[0] == newest for key, rank in self.ranks.items())

    def begin_attempt(self, number: int) -> None:
        """Forget the disconnected ranks of earlier attempts when the job starts again."""
        self.newest_attempt = number
        self.ranks = {
            key: rank
            for key, rank in self.ranks.items()
            if key[0] == number or rank.state == CONNECTED
        }

    def command(self, number: int) -> dict[str, Any]:
        """The message that sends a rank all capture requests."""
        watches = [watch.to_json() for watch in self.watches.values()]
        return {"type": "watch", "id": f"c{number}", "watches": watches}

    def forget_ended(self) -> None:
        """Drop capture requests whose last step every connected rank has passed."""
        steps = [rank.step for rank in self.connected]
        if steps:
            self.watches = {
                name: watch
                for name, watch in self.watches.items()
                if watch.until is None or min(steps) <= watch.until
            }

    def costs(self) -> dict[str, dict[str, float]]:
        """Costs of each capture request: the maximum over ranks of per-step values, else the
        sum.
        """
        totals: dict[str, dict[str, float]] = {}
        for rank in self.connected:
            for cost in rank.costs:
                total = totals.setdefault(str(cost.get("id"))[:60], {})
                for name, value in cost.items():
                    if isinstance(value, int | float) and not isinstance(value, bool):
                        old = total.get(name, 0)
                        total[name] = max(old, value) if name.endswith("_per_step") else old + value
        return totals

    def state(self) -> dict[str, Any]:
        """The message that every browser with a live view receives each second."""
        self.forget_ended()
        connected = self.connected
        return {
            "type": "state",
            "watches": [watch.to_json() for watch in self.watches.values()],
            **{state: self.num(state) for state in STATES},
            "step": max((rank.step for rank in connected), default=None),
            "frames": sum(rank.received for rank in self.ranks.values()),
            "thinned": sum(rank.thinned for rank in self.ranks.values()),
            "costs": self.costs(),
        }


class ConnectedRanks:
    """All runs with ranks that have connected."""

    def __init__(self, on_forget: Callable[[str], object] = str) -> None:
        self.runs: OrderedDict[str, LiveRun] = OrderedDict()
        self._on_forget = on_forget  # called with the name of a run that is evicted
        self._numbers = count(1)

    def run(self, name: str) -> LiveRun:
        """The run of that name; raises UserError if none of its ranks has ever connected."""
        run = self.runs.get(name)
        if run is None:
            raise UserError(
                f"no rank of {name[:120]!r} is connected; a job can be watched live only if it was "
                "started with TRACE_HOOKS_SERVER and TRACE_HOOKS_TOKEN (docs/remote.md)"
            )
        return run

    def enter(self, hello: Hello) -> ConnectedRank:
        """Add a rank that has connected; raises Crowded if there is no room for another, NotYours
        if it has ended the attempt.
        """
        run = self._run_of(hello)
        rank = ConnectedRank(hello)
        old = run.ranks.get(rank.key)
        if old is not None and old.state == ENDED:
            raise NotYours(f"rank {hello.rank} has ended attempt {hello.attempt}")
        while old is None and sum(len(known.ranks) for known in self.runs.values()) >= MOST_RANKS:
            self._evict_run(hello.run, f"{MOST_RANKS} ranks are connected to this server already")
        if old is not None:
            old.replaced.set()
        run.ranks[rank.key] = rank
        if hello.attempt > run.newest_attempt:
            run.begin_attempt(hello.attempt)
        self._settle(run, rank)
        return rank

    def again(self, rank: ConnectedRank, hello: Hello) -> None:
        """Process another hello of a rank, such as after its layout became known."""
        if hello.claim != rank.hello.claim:
            raise ValueError(
                "a rank cannot change its run, attempt, rank or start while it is connected"
            )
        rank.hello = replace(hello, secret="")

    def is_connected(self, name: str) -> bool:
        """Whether a rank of this run is connected; also for other threads."""
        run = self.runs.get(name)
        return run is not None and any(rank.state == CONNECTED for rank in list(run.ranks.values()))

    def leave(self, rank: ConnectedRank) -> None:
        """Mark a rank whose socket has closed as gone."""
        if rank.state == CONNECTED:
            rank.state = GONE

    async def watch(
        self, name: str, watches: Iterable[Watch], ended: Iterable[str]
    ) -> dict[str, Any]:
        """Begin (or replace) and end capture requests; returns the valid ones and the ranks'
        answers.

        Drops a request that every answering rank refuses. Raises UserError.
        """
        run = self.run(name)
        self._require_connected(run, name)
        run.forget_ended()
        left_out = set(ended)
        wanted = {key: watch for key, watch in run.watches.items() if key not in left_out}
        wanted |= {watch.id: watch for watch in watches}
        if len(wanted) > MAX_WATCHES:
            raise UserError(
                f"{len(wanted)} watches at once; at most {MAX_WATCHES} are possible, end some"
            )
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
        """Send a command to these ranks and gather their answers; `args` in the result is what the
        server sent. `ranks` None: all ranks, for a perturbation those with its layer.

        Raises UserError, and ValueError for wrong arguments of a known command.
        """
        run = self.run(name)
        self._require_connected(run, name)
        chosen = [rank for rank in run.connected if ranks is None or rank.hello.rank in ranks]
        if not chosen:
            raise UserError(f"none of the ranks {str(ranks)[:80]} of {name} is connected")
        if command == PERTURB:
            return await perturb(args, chosen, ranks is None, self._send)
        if command in capture_request.MAX_STEPS:
            args = with_first_step(args, chosen, command)
        acks, silent = await self._send(chosen, command, args)
        return {"acks": [ack.as_json() for ack in acks], "silent": silent, "args": args}

    async def _send(
        self, ranks: Sequence[ConnectedRank], command: str, args: Any
    ) -> tuple[list[Ack], list[int]]:
        message = {
            "type": "command",
            "id": f"c{next(self._numbers)}",
            "name": command,
            "args": args,
        }
        return await self._ask(ranks, message)

    async def _ask(
        self, ranks: Sequence[ConnectedRank], command: dict[str, Any]
    ) -> tuple[list[Ack], list[int]]:
        """The ranks' answers to a command, and the ranks that did not answer in time."""
        answers = await asyncio.gather(*(rank.ask(command) for rank in ranks))
        silent = [rank.hello.rank for rank, ack in zip(ranks, answers, strict=True) if ack is None]
        return [ack for ack in answers if ack is not None], silent

    def _settle(self, run: LiveRun, rank: ConnectedRank) -> None:
        """Synchronise the capture requests with a rank that has just connected."""
        if not run.is_set:
            for watch in rank.hello.watches:
                if len(run.watches) < MAX_WATCHES:
                    run.watches.setdefault(watch.id, watch)
        if {watch.id: watch for watch in rank.hello.watches} != run.watches:
            rank.send(run.command(next(self._numbers)))

    def _run_of(self, hello: Hello) -> LiveRun:
        run = self.runs.get(hello.run)
        if run is not None:
            return run
        if len(self.runs) >= MOST_RUNS:
            self._evict_run("", f"ranks of {MOST_RUNS} runs are connected to this server already")
        return self.runs.setdefault(hello.run, LiveRun())

    def _evict_run(self, but: str, why_not: str) -> None:
        """Forget the first run without a connected rank; raises Crowded if there is none."""
        over = next((n for n, run in self.runs.items() if n != but and not run.connected), None)
        if over is None:
            raise Crowded(why_not)
        del self.runs[over]
        self._on_forget(over)

    def _require_connected(self, run: LiveRun, name: str) -> None:
        if not run.connected:
            raise UserError(
                f"no rank of {name} is connected any more, so nothing can be watched live"
            )
