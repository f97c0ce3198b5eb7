"""Queries of the page: interrupted, limited in time, with their documentation."""

from __future__ import annotations

import json
import threading
import time

import pytest

from app.pages import query as page
from app.view_state import View
from app.views.run.query import answered, prepared, questions
from ingest.errors import UserError
from ingest.query.saved_queries import saved_queries
from ingest.stopping import Stop


def test_cancelling_interrupts(hub):
    stop = Stop()
    threading.Timer(0.2, stop).start()
    begun = time.monotonic()
    with pytest.raises(UserError, match="interrupted"):
        answered(
            hub.run("job"),
            ("SELECT count(*) FROM range(10000000) a, range(10000000) b", None),
            stop,
        )
    assert time.monotonic() - begun < 10


def test_the_time_limit_is_a_sentence(hub):
    query = ("SELECT count(*) FROM range(10000000) a, range(10000000) b", None)
    with pytest.raises(UserError, match="took longer than"):
        answered(hub.run("job"), query, limit_s=0.2)


def test_the_servers_time_is_filled_in(hub):
    _, values = prepared(hub.run("job"), "data_age", {})
    assert abs(values["now_ns"] - time.time_ns()) < 60 * 10**9
    assert prepared(hub.run("job"), "data_age", {"now_ns": "5"})[1]["now_ns"] == 5


def test_the_page_has_every_question_with_its_documentation(hub):
    rendered = page.render(hub, View("job", "query"))
    options = json.loads(getattr(rendered, "data-options"))
    assert [question["name"] for question in options["questions"]] == list(saved_queries())
    assert options["questions"] == json.loads(json.dumps(questions()))
    one = next(question for question in options["questions"] if question["name"] == "late_ranks")
    assert one["doc"]
    assert one["empty"]
    assert ["rank", "global rank"] in one["columns"]
    assert options["folder"].endswith("/job")
