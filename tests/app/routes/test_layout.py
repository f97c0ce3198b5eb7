"""The layout of a run over HTTP: the current one, a preview, and who may correct it."""

from __future__ import annotations

import pytest

from tests.app.server.asgi import Client

URL = "/api/run/job/layout"


def test_the_current_layout_and_what_a_form_needs(client: Client) -> None:
    answer = client.get(URL).json()
    assert (answer["num_ranks"], answer["world_size"]) == (2, 2)
    assert set(answer["sizes"]) >= {"pp", "tp"}


@pytest.mark.parametrize(
    ("query", "sentence"),
    [("tp=x", "give a whole number"), ("tp=3", "multiply"), ("nonsense=2", "nonsense")],
)
def test_a_layout_that_does_not_fit_is_a_sentence(
    client: Client, query: str, sentence: str
) -> None:
    answer = client.get(f"{URL}?{query}")
    assert answer.status == 400
    assert sentence in answer.json()["error"]


def test_a_correction_needs_a_valid_body(client: Client) -> None:
    answer = client.post(URL, b"[]")
    assert answer.status == 400
    assert "this is not a layout" in answer.json()["error"]
