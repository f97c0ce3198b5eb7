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
class _Kept:
    given_s: float
    session: str
    run: str
    text: str


class Tickets:
    """What may be fetched once, soon, and by the session that asked for it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def give(self, session: str, run: str, text: str) -> str:
        """A ticket for this text about this run; raises UserError for a text that is too long."""
        check_text(text)
        self._drop_old()
        own = [ticket for ticket, kept in self._kept.items() if kept.session == session]
        for ticket in own[: max(0, len(own) + 1 - MOST_OF_ONE_SESSION)]:
            del self._kept[ticket]
        while self._num_characters() + len(text) > MOST_CHARACTERS:
            self._kept.popitem(last=False)
        ticket = secrets.token_urlsafe(24)
        self._kept[ticket] = _Kept(time.monotonic(), session, run, text)
        return ticket

    def take(self, ticket: str, session: str, run: str) -> str | None:
        """The text, once; None for a ticket that is old, used, unknown or somebody else's."""
        self._drop_old()
        kept = self._kept.get(ticket)
        if kept is None or (kept.session, kept.run) != (session, run):
            return None
        del self._kept[ticket]
        return kept.text

    def _drop_old(self) -> None:
        begun_s = time.monotonic() - VALID_S
        while self._kept and next(iter(self._kept.values())).given_s < begun_s:
            self._kept.popitem(last=False)

    def _num_characters(self) -> int:
        return sum(len(kept.text) for kept in self._kept.values())
