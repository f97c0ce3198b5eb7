"""CSV files of SQL: how many are sent at once, and how many links to them are kept."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from app.hub import Hub
from app.routes.tickets import MOST_CHARACTERS, MOST_OF_ONE_SESSION, Tickets
from app.routes.turns import AT_ONCE, OF_ONE_SESSION, Busy, Turns
from app.server import make_app
from ingest.errors import UserError
from tests.app.in_process import Client
from tests.runs_builder import two_rank_run


def test_nobody_takes_the_tickets_of_others() -> None:
    tickets = Tickets()
    mine = tickets.give("me", "run", "SELECT 1")
    theirs = [tickets.give("them", "run", "SELECT 2") for _ in range(1000)]
    assert tickets.take(mine, "me", "run") == "SELECT 1"
    kept = [tickets.take(ticket, "them", "run") for ticket in theirs]
    assert kept == [None] * (1000 - MOST_OF_ONE_SESSION) + ["SELECT 2"] * MOST_OF_ONE_SESSION


def test_tickets_keep_no_more_text_than_the_server_can_spare() -> None:
    tickets = Tickets()
    text = "SELECT '" + "x" * 900_000 + "'"
    given = [(str(i), tickets.give(str(i), "run", text)) for i in range(50)]
    kept = [tickets.take(ticket, session, "run") for session, ticket in given]
    assert 0 < sum(len(one or "") for one in kept) <= MOST_CHARACTERS


def test_a_text_that_is_too_long_gets_no_ticket() -> None:
    with pytest.raises(UserError, match="1000000 is the limit"):
        Tickets().give("me", "run", "x" * 1_000_001)


def test_files_that_are_sent_have_places() -> None:
    turns = Turns("SQL")
    for _ in range(OF_ONE_SESSION):
        turns.begin_file("a")
    with pytest.raises(Busy):
        turns.begin_file("a")
    turns.begin_file("b")
    assert OF_ONE_SESSION + 1 == AT_ONCE
    with pytest.raises(Busy):
        turns.begin_file("c")
    turns.end_file("a")
    turns.begin_file("c")


def test_the_place_of_a_file_is_given_back(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "two")
    with closing(Hub(tmp_path)) as hub:
        client = Client(make_app(hub))
        for text in ["SELECT 1", "SELECT nothing"] * (AT_ONCE + 1):
            answer = client.request(
                "POST", "/api/run/two/query.csv", json={"sql": text}, headers={"X-Rankscope": "1"}
            )
            assert answer.status_code == (200 if text == "SELECT 1" else 400), answer.text
        client.close()
