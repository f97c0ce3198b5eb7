"""What the routes answer from: one object instead of a signature for each module."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.live.jobs import LiveJobs
from app.runs.hub import Hub
from app.web.request_queue import Turns


@dataclass(frozen=True)
class RouteContext:
    """The runs, the connected jobs, and a queue for each kind of long request."""

    hub: Hub
    public_root: str = ""
    """where others reach this server, for links in shared files"""
    jobs: LiveJobs = field(default_factory=LiveJobs)
    questions: Turns = field(default_factory=lambda: Turns("saved questions"))
    sql: Turns = field(default_factory=lambda: Turns("SQL"))
    shares: Turns = field(default_factory=lambda: Turns("shared files"))
    whatifs: Turns = field(default_factory=lambda: Turns("what-if"))

    @property
    def queues(self) -> tuple[Turns, ...]:
        """All of them, for the server's own health."""
        return self.questions, self.sql, self.shares, self.whatifs
