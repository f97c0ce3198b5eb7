"""Tickets for one download each: a link cannot send a header, and a link alone must run nothing."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass

from ingest.free_sql.allow_list import check_text

VALID_S = 60.0
MOST_OF_ONE_SESSION = 10
"""Tickets that are kept; the oldest of the session makes room, so nobody takes others' tickets."""
MOST_CHARACTERS = 8_000_000
"""In the texts of all that are kept; the oldest make room."""


@dataclass(frozen=True)
class Kept:
    """What a ticket stands for: a text about a run, for the session that asked for it."""

    given_s: float
    session: str
    run: str
    text: str


class Tickets:
    """What may be fetched once, soon, and by the session that asked for it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def give(self, session: str, run: str, text: str) -> str:
        """A ticket for this text about this run; raises UserError for a text that is too long."""
        check_text(text)
        ticket = secrets.token_urlsafe(24)
        self.put_back(ticket, Kept(time.monotonic(), session, run, text))
        return ticket

    def find(self, ticket: str, session: str, run: str) -> Kept | None:
        """None for a ticket that is old, used, unknown or somebody else's."""
        self._drop_old()
        kept = self._kept.get(ticket)
        return kept if kept and (kept.session, kept.run) == (session, run) else None

    def take(self, ticket: str, session: str, run: str) -> Kept | None:
        """As `find`, once."""
        kept = self.find(ticket, session, run)
        if kept is not None:
            del self._kept[ticket]
        return kept

    def put_back(self, ticket: str, kept: Kept) -> None:
        """Make a ticket valid that was taken and served nothing, until it would have ended."""
        self._drop_old()
        own = [key for key, other in self._kept.items() if other.session == kept.session]
        for oldest in own[: max(0, len(own) + 1 - MOST_OF_ONE_SESSION)]:
            del self._kept[oldest]
        while self._num_characters() + len(kept.text) > MOST_CHARACTERS:
            self._kept.popitem(last=False)
        self._kept[ticket] = kept

    def _drop_old(self) -> None:
        begun_s = time.monotonic() - VALID_S
        for ticket in [key for key, kept in self._kept.items() if kept.given_s <= begun_s]:
            del self._kept[ticket]

    def _num_characters(self) -> int:
        return sum(len(kept.text) for kept in self._kept.values())
