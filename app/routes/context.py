"""What the routes answer from: one object instead of a signature for each module."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.live.jobs import LiveJobs
from app.runs.hub import Hub
from app.web.request_queue import RequestQueue


@dataclass(frozen=True)
class RouteContext:
    """The runs, the connected jobs, and a queue for each kind of long request."""

    hub: Hub
    public_root: str = ""
    """where others reach this server, for links in shared files"""
    jobs: LiveJobs = field(default_factory=LiveJobs)
    questions: RequestQueue = field(default_factory=lambda: RequestQueue("saved questions"))
    sql: RequestQueue = field(default_factory=lambda: RequestQueue("SQL"))
    shares: RequestQueue = field(default_factory=lambda: RequestQueue("shared files"))
    whatifs: RequestQueue = field(default_factory=lambda: RequestQueue("what-if"))

    @property
    def queues(self) -> tuple[RequestQueue, ...]:
        """All of them, for the server's own health."""
        return self.questions, self.sql, self.shares, self.whatifs
