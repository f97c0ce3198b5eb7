"""Roles, and requests that run something."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import HTTPConnection

from app.settings import Role
from app.web.caller import BEARER, PAGE_HEADER, ROLE, Forbidden, require, require_page_header


def request(header: str = "", **state: Any) -> HTTPConnection:
    headers = [(PAGE_HEADER.encode(), header.encode())] if header else []
    return HTTPConnection({"type": "http", "headers": headers, **state})


def test_a_role_includes_those_before_it() -> None:
    require(request(**{ROLE: Role.operator}), Role.viewer)
    with pytest.raises(Forbidden, match="needs the role uploader, yours is viewer"):
        require(request(**{ROLE: Role.viewer}), Role.uploader)
    with pytest.raises(Forbidden, match="yours is none"):
        require(request(), Role.viewer)


def test_what_runs_something_comes_from_our_page_or_with_a_token() -> None:
    require_page_header(request("1"))
    require_page_header(request(**{BEARER: True}))
    with pytest.raises(Forbidden, match="X-Rankscope"):
        require_page_header(request())
