"""Tickets for downloads: used once, bounded per session and in all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.routes.tickets import MOST_CHARACTERS, MOST_OF_ONE_SESSION, VALID_S, Order, Tickets
from ingest.errors import UserError


def text_of(kept: Order | None) -> str | None:
    return None if kept is None else kept.text


def test_nobody_takes_the_tickets_of_others() -> None:
    tickets = Tickets()
    mine = tickets.give("me", "run", "SELECT 1")
    theirs = [tickets.give("them", "run", "SELECT 2") for _ in range(1000)]
    assert text_of(tickets.take(mine, "me", "run")) == "SELECT 1"
    kept = [text_of(tickets.take(ticket, "them", "run")) for ticket in theirs]
    assert kept == [None] * (1000 - MOST_OF_ONE_SESSION) + ["SELECT 2"] * MOST_OF_ONE_SESSION


def test_tickets_keep_no_more_text_than_the_server_can_spare() -> None:
    tickets = Tickets()
    text = "SELECT '" + "x" * 900_000 + "'"
    given = [(str(i), tickets.give(str(i), "run", text)) for i in range(50)]
    kept = [text_of(tickets.take(ticket, session, "run")) for session, ticket in given]
    assert 0 < sum(len(one or "") for one in kept) <= MOST_CHARACTERS


def test_a_text_that_is_too_long_gets_no_ticket() -> None:
    with pytest.raises(UserError, match="1000000 is the limit"):
        Tickets().give("me", "run", "x" * 1_000_001)


def test_a_ticket_that_is_put_back_ends_when_it_would_have() -> None:
    tickets = Tickets()
    ticket = tickets.give("me", "run", "SELECT 1")
    kept = tickets.take(ticket, "me", "run")
    assert kept is not None
    tickets.give("me", "run", "SELECT 2")
    tickets.put_back(ticket, kept)
    assert tickets.take(ticket, "me", "run") == kept
    tickets.put_back(ticket, replace(kept, issued_s=kept.issued_s - VALID_S))
    assert tickets.take(ticket, "me", "run") is None
