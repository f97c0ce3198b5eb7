"""The routes of the what-if page: numbers, refusals and wrong parameters."""

from __future__ import annotations

import pytest

from app.commands.whatif import KEYS
from tests.app.server.asgi import Client


def test_the_numbers_have_the_names_of_the_command_line(client: Client) -> None:
    answer = client.get("/api/run/job/what-if").json()
    assert set(KEYS) <= set(answer)
    assert answer["is_outdated"] is False


def test_a_job_without_a_pipeline_has_no_other_schedules(client: Client) -> None:
    answer = client.get("/api/run/job/what-if/schedules").json()
    assert "one pipeline stage" in answer["reason"]


@pytest.mark.parametrize("path", ["", "/causes", "/schedules"])
def test_steps_that_cannot_be_replayed_get_the_reason(client: Client, path: str) -> None:
    answer = client.get(f"/api/run/job/what-if{path}?steps=90..95")
    assert answer.status == 200
    assert "none of the steps 90 to 95 is finished" in answer.json()["reason"]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [("steps=5..2", "ends before it begins"), ("attempt=-1", "whole number")],
)
def test_wrong_parameters_are_explained(client: Client, query: str, sentence: str) -> None:
    answer = client.get(f"/api/run/job/what-if?{query}")
    assert answer.status == 400
    assert sentence in answer.json()["error"]
