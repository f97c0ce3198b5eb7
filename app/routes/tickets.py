"""Tickets for one download each: a link cannot send a header, and a bare link must run nothing."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass

from ingest.free_sql.allow_list import check_text

VALID_S = 60.0
MOST_OF_ONE_SESSION = 10
"""At most this many valid tickets of one session; a new one evicts that session's oldest."""
MOST_CHARACTERS = 8_000_000
"""In the texts of all valid tickets; new ones evict the oldest."""


@dataclass(frozen=True)
class Order:
    """What a ticket stands for: SQL for a run, requested by this session."""

    issued_s: float
    session: str
    run: str
    text: str


class Tickets:
    """Downloads that the session that requested them may fetch once, within VALID_S."""

    def __init__(self) -> None:
        self._orders: OrderedDict[str, Order] = OrderedDict()

    def give(self, session: str, run: str, text: str) -> str:
        """A ticket for this SQL and this run; raises UserError for a text that is too long."""
        check_text(text)
        ticket = secrets.token_urlsafe(24)
        self.put_back(ticket, Order(time.monotonic(), session, run, text))
        return ticket

    def find(self, ticket: str, session: str, run: str) -> Order | None:
        """The order of a ticket; None if it is old, used, unknown or somebody else's."""
        self._drop_old()
        order = self._orders.get(ticket)
        return order if order and (order.session, order.run) == (session, run) else None

    def take(self, ticket: str, session: str, run: str) -> Order | None:
        """As `find`, and make the ticket invalid."""
        order = self.find(ticket, session, run)
        if order is not None:
            del self._orders[ticket]
        return order

    def put_back(self, ticket: str, order: Order) -> None:
        """Make a taken ticket that served nothing valid again, until its original end."""
        self._drop_old()
        own = [key for key, other in self._orders.items() if other.session == order.session]
        for oldest in own[: max(0, len(own) + 1 - MOST_OF_ONE_SESSION)]:
            del self._orders[oldest]
        while self._num_characters() + len(order.text) > MOST_CHARACTERS:
            self._orders.popitem(last=False)
        self._orders[ticket] = order

    def _drop_old(self) -> None:
        oldest_s = time.monotonic() - VALID_S
        for ticket in [key for key, order in self._orders.items() if order.issued_s <= oldest_s]:
            del self._orders[ticket]

    def _num_characters(self) -> int:
        return sum(len(order.text) for order in self._orders.values())
