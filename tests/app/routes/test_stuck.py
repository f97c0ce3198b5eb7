"""The route of the page Stuck: a healthy job, and a damaged parameter."""

from __future__ import annotations

from tests.app.server.asgi import Client


def test_a_job_that_makes_progress(client: Client) -> None:
    answer = client.get("/api/run/job/stuck").json()
    assert (answer["state"], answer["findings"], answer["age_s"]) == ("none", [], None)


def test_wrong_parameters_are_explained(client: Client) -> None:
    answer = client.get("/api/run/job/stuck?attempt=-1")
    assert answer.status == 400
    assert "whole number" in answer.json()["error"]
