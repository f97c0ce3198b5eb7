"""Watches that the server requests by a command; the hello and the heartbeats report on them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from trace_hooks.protocol.watches import Ack, Watch, watches_of
from trace_hooks.recording.commands import WATCH, Live, Refused
from trace_hooks.recording.rank_state import RankState

NUM_BEATS = 11
"""Bytes per second are a mean over this many heartbeats: steps may take longer than one."""


class Inspecting(Protocol):
    """The part of trace_hooks.sources.inspection.inspection.Inspection needed here."""

    def set_watches(self, watches: Sequence[Watch], origin: str) -> list[Ack]:
        """Replace the watches that `origin` has requested before."""

    def what(self) -> dict[str, Any]:
        """What this rank can capture."""

    def status(self) -> list[dict[str, Any]]:
        """What each watch has done since it began."""


class ServerWatches:
    """The watches that the server has requested of this rank (agent's thread)."""

    def __init__(self, rank_state: RankState, inspecting: Inspecting, allow_content: bool) -> None:
        self._rank_state = rank_state
        self._allow_content = allow_content
        self._inspecting = inspecting
        self._requested: dict[str, Watch] = {}
        self._bytes_sent: dict[
            str, deque[tuple[float, int]]
        ] = {}  # (when, bytes until then), by watch

    def join(self, live: Live) -> None:
        """Register the command, and what the hello and the heartbeats report."""
        live.commands.register(WATCH, self.set_watches)
        live.about["what"] = self._inspecting.what
        live.about["allow_content"] = lambda: self._allow_content
        live.about["watches"] = self.watches
        live.beats["watches"] = self.status

    def set_watches(self, value: Any) -> str:
        """Begin the watches in a list of JSON objects; they replace the server's earlier ones.

        Raises ValueError; Refused where this rank cannot take all of them.
        """
        wanted = watches_of(value)
        acks = self._inspecting.set_watches(wanted, "server")
        refused = {ack.id for ack in acks if not ack.ok}
        self._requested = {watch.id: watch for watch in wanted if watch.id not in refused}
        text = "; ".join(f"{ack.id}: {ack.text}" for ack in acks) or "nothing is watched"
        if refused:
            raise Refused(text, sorted(refused))
        return text

    def watches(self) -> list[dict[str, Any]]:
        """The server's watches that still run; a restarted server learns them from here."""
        step = self._rank_state.step
        return [
            watch.to_json()
            for watch in self._requested.values()
            if watch.until is None or step <= watch.until
        ]

    def status(self) -> list[dict[str, Any]]:
        """What each watch has done and what it costs: ms of a captured step, bytes/s.

        CPU time of the training thread and of the drain thread, whose work slows training by that
        much at most: they share memory, caches and the interpreter lock.
        """
        statuses = self._inspecting.status()
        ids = {status["id"] for status in statuses}
        self._bytes_sent = {
            name: history for name, history in self._bytes_sent.items() if name in ids
        }
        return [status | self._costs(status) for status in statuses]

    def _costs(self, status: dict[str, Any]) -> dict[str, float]:
        history = self._bytes_sent.setdefault(status["id"], deque(maxlen=NUM_BEATS))
        history.append((time.monotonic(), status["bytes"]))
        (then_s, then), (now_s, now) = history[0], history[-1]
        per_s = max(0, now - then) / (now_s - then_s) if now_s > then_s else 0.0
        ms = (status["cost_ns"] + status["drain_ns"]) / 1e6 / max(1, status["steps"])
        return {"cost_ms_per_step": ms, "bytes_per_s": per_s}
