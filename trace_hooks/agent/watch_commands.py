"""Watches by way of the server: asked for by a command, told of in the hello and the heartbeats."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from trace_hooks.protocol.watches import Ack, Watch, watches_of
from trace_hooks.recording.commands import WATCH, Live, Refused
from trace_hooks.recording.rank_state import RankState

NUM_BEATS = 11
"""Bytes per second are the mean over so many heartbeats: steps may take longer than one."""


class Inspecting(Protocol):
    """What is needed of trace_hooks.sources.inspection.inspection.Inspection."""

    def set_watches(self, watches: Sequence[Watch], origin: str) -> list[Ack]:
        """Watch these in place of what `origin` has asked for before."""

    def what(self) -> dict[str, Any]:
        """What there is to watch on this rank."""

    def status(self) -> list[dict[str, Any]]:
        """What each watch has done since it began."""


class ServerWatches:
    """What the server has this rank watch (agent's thread)."""

    def __init__(self, rank_state: RankState, inspecting: Inspecting, allow_content: bool) -> None:
        self._rank_state = rank_state
        self._allow_content = allow_content
        self._inspecting = inspecting
        self._asked: dict[str, Watch] = {}
        self._told: dict[str, deque[tuple[float, int]]] = {}  # (when, bytes then), by watch

    def join(self, live: Live) -> None:
        """Take commands, and have the server told."""
        live.commands.register(WATCH, self.set_watches)
        live.about["what"] = self._inspecting.what
        live.about["allow_content"] = lambda: self._allow_content
        live.about["watches"] = self.watches
        live.beats["watches"] = self.status

    def set_watches(self, value: Any) -> str:
        """Watch what a list of JSON objects says, and nothing else of what the server asked for.

        Raises ValueError, Refused where not all of it can be watched here.
        """
        wanted = watches_of(value)
        acks = self._inspecting.set_watches(wanted, "server")
        refused = {ack.id for ack in acks if not ack.ok}
        self._asked = {watch.id: watch for watch in wanted if watch.id not in refused}
        text = "; ".join(f"{ack.id}: {ack.text}" for ack in acks) or "nothing is watched"
        if refused:
            raise Refused(text, sorted(refused))
        return text

    def watches(self) -> list[dict[str, Any]]:
        """What the server has asked for and has not ended: a new server learns it from here."""
        step = self._rank_state.step
        return [
            watch.to_json()
            for watch in self._asked.values()
            if watch.until is None or step <= watch.until
        ]

    def status(self) -> list[dict[str, Any]]:
        """What each watch has done and what it costs: ms of a captured step, bytes/s.

        CPU time of training's thread, and of the drain thread, whose work beside it slows it by
        that much at most: they share memory, caches and the interpreter's lock.
        """
        found = self._inspecting.status()
        ids = {one["id"] for one in found}
        self._told = {name: told for name, told in self._told.items() if name in ids}
        return [one | self._costs(one) for one in found]

    def _costs(self, one: dict[str, Any]) -> dict[str, float]:
        told = self._told.setdefault(one["id"], deque(maxlen=NUM_BEATS))
        told.append((time.monotonic(), one["bytes"]))
        (then_s, then), (now_s, now) = told[0], told[-1]
        per_s = max(0, now - then) / (now_s - then_s) if now_s > then_s else 0.0
        ms = (one["cost_ns"] + one["drain_ns"]) / 1e6 / max(1, one["steps"])
        return {"cost_ms_per_step": ms, "bytes_per_s": per_s}
