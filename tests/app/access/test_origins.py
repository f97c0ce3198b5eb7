"""Which requests come from pages of other sites."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from app.access.origins import is_foreign, is_page
from app.settings import Settings

NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.mark.parametrize(
    ("path", "headers", "foreign"),
    [
        ("/api/runs", {}, False),
        ("/api/runs", {"origin": "http://here:8050"}, False),
        ("/api/runs", {"origin": "http://evil.example"}, True),
        ("/api/runs", {"origin": "null"}, True),
        ("/api/runs", {"sec-fetch-site": "cross-site", **NAVIGATION}, True),
        ("/run/a/ranks", {"sec-fetch-site": "cross-site", **NAVIGATION}, False),
        ("/run/a/ranks", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, True),
        ("/run/a/ranks", {"sec-fetch-site": "cross-site", **NAVIGATION, "sec-purpose": "x"}, True),
    ],
)
def test_only_a_link_to_a_page_is_allowed(
    path: str, headers: dict[str, str], foreign: bool
) -> None:
    scope = {"type": "http", "method": "GET", "path": path}
    sent = Headers({"host": "here:8050", **headers})
    assert is_foreign(scope, sent, Settings()) is foreign


def test_pages_are_the_start_page_and_runs() -> None:
    assert [is_page(path) for path in ("/", "/fleet", "/run/a", "/api/fleet", "/metrics")] == [
        True,
        True,
        True,
        False,
        False,
    ]
