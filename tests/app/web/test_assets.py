"""Files of the browser side: only those below assets/, cached under their version."""

from __future__ import annotations

import pytest

from app.web.assets import assets_version
from tests.app.server.asgi import Client


@pytest.mark.parametrize(
    "path",
    [
        "..%2f..%2fpyproject.toml",
        "../../pyproject.toml",
        "%2e%2e/%2e%2e/app/server.py",
        "css",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "lib/../../app/server.py",
        "main.mjs%00.css",
        "nothing.css",
        "..%5c..%5cpyproject.toml",
        "css/" + "a" * 5000 + ".css",
    ],
)
def test_files_come_from_assets_alone(client: Client, path: str) -> None:
    answer = client.get(f"/assets/{assets_version()}/{path}")
    assert answer.status == 404
    assert b"import" not in answer.body
