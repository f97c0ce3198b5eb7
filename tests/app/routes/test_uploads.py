"""The protocol of uploads: roles, versions, headers."""

from __future__ import annotations

import pytest

from app.routes.uploads import MEDIA_TYPE, VERSION
from tests.app.server.asgi import Client

TUS = {"tus-resumable": VERSION}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 412),
        ({"content-type": "text/plain", **TUS}, 415),
        ({"content-type": MEDIA_TYPE, **TUS}, 409),
        ({"content-type": MEDIA_TYPE, "upload-offset": "0", **TUS}, 404),
    ],
)
def test_what_does_not_speak_the_protocol_is_refused(
    client: Client, headers: dict[str, str], status: int
) -> None:
    answer = client.request("PATCH", "/api/uploads/unknown", b"abc", **headers)
    assert answer.status == status
    assert answer.headers["tus-resumable"] == VERSION
    assert answer.json()["error"]
