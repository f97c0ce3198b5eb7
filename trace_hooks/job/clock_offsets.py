"""Keeps the `clocks` table: what to add to this rank's times to compare them with rank 0's.

Processes of one host share the monotonic clock, so their offset is the difference of their anchors
and needs no message. Across hosts one rank per host plays ping-pong with rank 0, about once a
minute. The other ranks of that host read the result. All of it is done on threads of its own:
waiting for the store, whose network may stall, must delay neither the drain thread, which sends the
heartbeats, nor training.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from trace_hooks.job.clock_ping_pong import (
    Estimate,
    answer,
    call,
    called,
    is_ready,
    measure,
    with_drift,
)
from trace_hooks.job.identity import Identity
from trace_hooks.job.process_info import clock_domain
from trace_hooks.job.rendezvous import own_connection
from trace_hooks.recording import guard
from trace_hooks.recording.clock import Anchor, now
from trace_hooks.recording.recorder import Recorder

log = logging.getLogger("trace_hooks")

PERIOD_S = 60.0
LISTEN_S = 0.25
ASK_S = 1.0
HOSTS_AT_ONCE = 32
JOIN_S = 5.0


class ClockOffsets:
    """Writes this rank's rows of `clocks`; `poll` runs on the drain thread."""

    def __init__(
        self,
        recorder: Recorder,
        anchor: Anchor,
        prefix: str,
        domain: str | None = None,
        clock: Callable[[], int] = now,
        period_s: float = PERIOD_S,
    ) -> None:
        self._recorder, self._anchor = recorder, anchor
        self._prefix = f"{prefix}/clock"
        self._domain = domain or clock_domain()
        self._clock = clock
        self._period_s = period_s
        self._same_host_written = False
        self._host: str | None = None  # key of this host's sessions
        self._seen = ""
        self._session = 0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def poll(self, identity: Identity, find_store: Callable[[], Any]) -> None:
        """Begin; `find_store` is asked on a thread, and returns None without a process group."""
        is_same_host = identity.shared.clock_domain == self._domain
        if is_same_host:
            self._write_same_host(identity)
        if not self._threads and (not is_same_host or identity.place.rank == 0):
            if is_same_host:
                self._run(self._each_round, find_store, self._serve)
            else:
                self._run(self._each_round, find_store, partial(self._take_part, identity))

    def close(self) -> None:
        """End the threads: none may be inside the store at exit."""
        self._stop.set()
        for thread in self._threads:
            thread.join(JOIN_S)

    def _write_same_host(self, identity: Identity) -> None:
        if not self._same_host_written:
            self._same_host_written = True
            shared = identity.shared
            is_rank_0 = identity.place.rank == 0
            self._recorder.add_row(
                "clocks",
                ts_ns=now(),
                offset_ns=shared.clock_offset_ns - self._anchor.offset_ns,
                err_ns=0 if is_rank_0 else shared.clock_err_ns + self._anchor.err_ns,
                drift_ppb=0,
                method="same_host",
            )

    def _each_round(self, find_store: Callable[[], Any], do: Callable[[Any], None]) -> None:
        """Do something with the store each ASK_S; it is not kept in between (see own_store)."""
        while not self._stop.wait(ASK_S):
            try:
                store = find_store()
                if store is not None:
                    do(store)
                del store
            except RuntimeError as error:  # the store is late, or gone
                log.debug("the clocks of other hosts are not known: %s", error)

    def _serve(self, store: Any) -> None:
        """Rank 0: ping the other hosts once one has registered."""
        if store.add(f"{self._prefix}/hosts", 0) > 0:
            self._ping_hosts(store)

    def _take_part(self, identity: Identity, store: Any) -> None:
        """Another host: its first rank answers pings, all its ranks read the estimates."""
        self._register(store)
        self._read_estimate(identity, store)

    def _register(self, store: Any) -> None:
        if self._host is None:
            host = f"{self._prefix}/of/{self._domain}"
            if store.add(f"{host}/ranks", 1) == 1:
                number = store.add(f"{self._prefix}/hosts", 1)
                store.set(f"{self._prefix}/host{number}", host)
                self._run(self._answer_pings, host, own_connection(store))  # it blocks on its own
            self._host = host

    def _read_estimate(self, identity: Identity, store: Any) -> None:
        result = f"{self._host}/estimate"
        if not store.check([result]):
            return
        text = store.get(result).decode()
        if text != self._seen:
            self._seen = text
            estimate = Estimate(**json.loads(text))
            shared = identity.shared
            self._recorder.add_row(
                "clocks",
                ts_ns=now(),
                offset_ns=estimate.delta_ns + shared.clock_offset_ns - self._anchor.offset_ns,
                err_ns=estimate.err_ns,
                drift_ppb=estimate.drift_ppb,
                method="store_ping_pong",
            )

    def _run(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(
            target=guard.attempt,
            args=("clock_offsets", lambda: target(*arguments)),
            name="trace_hooks clocks",
            daemon=True,
        )
        thread.start()
        self._threads.append(thread)  # not before: another thread may close us in between

    def _answer_pings(self, host: str, store: Any) -> None:
        answered: str | None = None
        while not self._stop.wait(LISTEN_S):
            try:
                session = called(store, host)
                if session is not None and session != answered:
                    answered = session
                    answer(store, session, self._clock)
            except RuntimeError as error:  # rank 0 was late, or the store is gone
                log.debug("a clock session was given up: %s", error)

    def _ping_hosts(self, store: Any) -> None:
        first: dict[str, Estimate] = {}
        while not self._stop.is_set():
            try:
                count = store.add(f"{self._prefix}/hosts", 0)
                names = [f"{self._prefix}/host{n}" for n in range(1, count + 1)]
                hosts = [store.get(name).decode() for name in names if store.check([name])]
                for begin in range(0, len(hosts), HOSTS_AT_ONCE):
                    self._ping(store, hosts[begin : begin + HOSTS_AT_ONCE], first)
                all_known = len(first) == count
            except RuntimeError as error:
                log.debug("clock sessions were given up: %s", error)
                all_known = False
            self._stop.wait(self._period_s if all_known else 2.0)

    def _ping(self, store: Any, hosts: list[str], first: dict[str, Estimate]) -> None:
        self._session += 1
        waiting = {host: call(store, host, self._session) for host in hosts}
        for _ in range(8):
            if self._stop.wait(LISTEN_S):
                return
            for host in [h for h, session in waiting.items() if is_ready(store, session)]:
                estimate = measure(store, waiting.pop(host), self._clock)
                first.setdefault(host, estimate)
                estimate = with_drift(estimate, first[host])
                store.set(f"{host}/estimate", json.dumps(asdict(estimate)))
