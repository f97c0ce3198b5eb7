"""The settings of a server about its own address."""

from __future__ import annotations

import pytest

from app.settings import Settings


@pytest.mark.parametrize("base", ["/a b", "/a?b", "/../x", "/<script>", "/run", "/api/x", "/_dash"])
def test_a_prefix_that_looks_like_a_route_is_refused(base: str) -> None:
    with pytest.raises(ValueError, match="--base-path"):
        Settings(base=base)


@pytest.mark.parametrize("base", ["", "/", "p", "/p", "/p/", "/user/a@b.c/proxy/8050"])
def test_prefixes(base: str) -> None:
    assert Settings(base=base).base == ("" if base.strip("/") == "" else "/" + base.strip("/"))


@pytest.mark.parametrize("url", ["hub.example.org", "ftp://x", "//x", "https://"])
def test_a_public_url_is_a_whole_one(url: str) -> None:
    with pytest.raises(ValueError, match="--public-url"):
        Settings(public_url=url)
