"""Measures how far the monotonic clock of another host is from rank 0's, over the job's store.

Rank 0 sends a ping, the other host answers with its time, rank 0 notes when that came. Of a dozen
rounds the one with the shortest round trip counts, and half of that trip is the uncertainty
(Cristian, Probabilistic clock synchronization, 1989). Keys are deleted after use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

ROUNDS = 12
PATIENCE = timedelta(seconds=1)
"""Either side waits this long for the other in one round."""


class Round(NamedTuple):
    """One ping and its answer, monotonic ns: sent and received on rank 0, answered on the host."""

    sent_ns: int
    answered_ns: int
    received_ns: int


@dataclass(frozen=True)
class Estimate:
    """What to add to a host's monotonic clock to get rank 0's, and when that was so."""

    delta_ns: int
    err_ns: int
    at_ns: int  # on rank 0's monotonic clock
    drift_ppb: int = 0


def estimate(rounds: Sequence[Round]) -> Estimate:
    """Estimate from the quickest round; raises ValueError without rounds."""
    best = min(rounds, key=lambda r: r.received_ns - r.sent_ns)
    middle_ns = (best.sent_ns + best.received_ns) // 2
    err_ns = (best.received_ns - best.sent_ns + 1) // 2
    return Estimate(middle_ns - best.answered_ns, err_ns, middle_ns)


def with_drift(new: Estimate, first: Estimate | None, least_s: float = 30.0) -> Estimate:
    """The estimate with its drift since the `first`; 0 while that is younger than `least_s`."""
    gone_ns = 0 if first is None else new.at_ns - first.at_ns
    if first is None or gone_ns < least_s * 1e9:
        return new
    drift_ppb = round((new.delta_ns - first.delta_ns) / gone_ns * 1e9)
    return Estimate(new.delta_ns, new.err_ns, new.at_ns, drift_ppb)


def call(store: Any, key: str, session: int) -> str:
    """Rank 0: ask a host for a session; returns the key of that session.

    Every session has keys of its own, so that leftovers of a failed one are never taken for an
    answer.
    """
    store.set(f"{key}/call", str(session))
    return f"{key}/{session}"


def called(store: Any, key: str) -> str | None:
    """The host: key of the last session that rank 0 called for; None before the first."""
    if not store.check([f"{key}/call"]):
        return None
    return f"{key}/{int(store.get(f'{key}/call'))}"


def answer(store: Any, session: str, clock: Callable[[], int]) -> None:
    """The host: take part in a session. Raises what the store raises when rank 0 goes away."""
    store.set(f"{session}/ready", "1")
    for number in range(ROUNDS):
        store.wait([f"{session}/ping{number}"], PATIENCE)
        store.set(f"{session}/pong{number}", str(clock()))


def is_ready(store: Any, session: str) -> bool:
    """Rank 0: whether the host that was called waits for the first ping."""
    return bool(store.check([f"{session}/ready"]))


def measure(store: Any, session: str, clock: Callable[[], int]) -> Estimate:
    """Rank 0: ping a host that is ready. Raises what the store raises when it goes away."""
    rounds = []
    for number in range(ROUNDS):
        ping, pong = f"{session}/ping{number}", f"{session}/pong{number}"
        sent_ns = clock()
        store.set(ping, "1")
        store.wait([pong], PATIENCE)
        received_ns = clock()
        rounds.append(Round(sent_ns, int(store.get(pong)), received_ns))
        with suppress(RuntimeError):
            store.delete_key(ping)
            store.delete_key(pong)
    with suppress(RuntimeError):
        store.delete_key(f"{session}/ready")
    return estimate(rounds)
