"""Tickets for one download each: a link cannot send a header, and a link alone must run nothing."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict

VALID_S = 60.0
MOST = 200
"""Tickets that are kept; the oldest makes room."""


class Tickets:
    """What may be fetched once, soon, and by the session that asked for it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, str, str, str]] = OrderedDict()

    def give(self, session: str, run: str, text: str) -> str:
        """A ticket for this text about this run."""
        while len(self._kept) >= MOST:
            self._kept.popitem(last=False)
        ticket = secrets.token_urlsafe(24)
        self._kept[ticket] = time.monotonic(), session, run, text
        return ticket

    def take(self, ticket: str, session: str, run: str) -> str | None:
        """The text, once; None for a ticket that is old, used, unknown or somebody else's."""
        kept = self._kept.pop(ticket, None)
        if kept is None or kept[1:3] != (session, run) or time.monotonic() - kept[0] > VALID_S:
            return None
        return kept[3]
