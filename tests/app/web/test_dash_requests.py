"""Malformed requests for callbacks are refused in one sentence."""

from __future__ import annotations

import pytest

from tests.app.server.asgi import Client


def test_a_callback_takes_no_endless_body(client: Client) -> None:
    body = b'{"x": "' + b"x" * (5 << 20) + b'"}'
    environ = {"content_type": "application/json", "content_length": str(len(body))}
    assert client.post("/_dash-update-component", body, **environ).status == 413


PAGE_OUTPUT = "..page.children...page.className...strip-place.children.."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "output and inputs"),
        (b"[]", "output and inputs"),
        (b"", "output and inputs"),
        (b"{", "output and inputs"),
        (b"[" * 100_000, "output and inputs"),
        (b'{"output": 1, "inputs": []}', "output and inputs"),
        (b'{"output": "nothing.children", "inputs": []}', "no such callback"),
        (b'{"output": "%s"}' % PAGE_OUTPUT.encode(), "inputs"),
        (b'{"output": "%s", "inputs": {}}' % PAGE_OUTPUT.encode(), "inputs"),
        (b'{"output": "%s", "inputs": [1]}' % PAGE_OUTPUT.encode(), "inputs"),
    ],
)
def test_a_malformed_callback_is_a_sentence(client: Client, body: bytes, message: str) -> None:
    environ = {"content_type": "application/json", "content_length": str(len(body))}
    answer = client.post("/_dash-update-component", body, **environ)
    assert answer.status == 400
    assert message in answer.json()["error"]
