"""How a run is at this moment, for the live socket: cheap enough for every socket every second."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from app.runs.hub import Hub
from app.views.run.runs import activity_ns, card_of, live_state

_NS = 1e9


@dataclass(frozen=True)
class LiveStatus:
    """What the live socket sends about a run; None: unknown."""

    run: str
    version: int
    state: str
    """as ingest.run.STATES"""
    last_step: int | None
    data_age_s: float | None
    """since something of the run arrived here, by this machine's clock"""
    server_ns: int
    """Unix ns of this machine"""
    problem: str | None = None
    """why the index is behind, one sentence"""
    progress: int = 0
    """steps that ranks have finished, all ranks together: words and numbers change with it"""
    bar: str = ""
    """app.views.run.runs.Card.bar"""

    def as_json(self) -> dict[str, object]:
        """For JSON; server_ns as text, it exceeds what browsers count exactly."""
        return {**asdict(self), "server_ns": str(self.server_ns)}


def live_status(hub: Hub, name: str, now_ns: int | None = None) -> LiveStatus:
    """The status of a run; asks the index once per version.

    Raises UserError for an unknown run, and at once for one whose first index is not there yet.
    """
    version = hub.version(name, wait_s=0)
    card = hub.cache.get(name, "card", lambda run, _: card_of(run))
    now_ns = time.time_ns() if now_ns is None else now_ns
    heard_ns = activity_ns(card)
    return LiveStatus(
        run=name,
        version=version,
        state=live_state(card, now_ns),
        last_step=card.facts["last_step"] if card.facts else None,
        data_age_s=round(max(0.0, (now_ns - heard_ns) / _NS), 3) if heard_ns else None,
        server_ns=now_ns,
        problem=hub.problem(name),
        progress=card.facts["num_finished"] if card.facts else 0,
        bar=card.bar,
    )
