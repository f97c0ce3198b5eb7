"""Which requests pages of other sites made, and the few of them that may come in."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from app.settings import Settings

_PORTS = {"http": "80", "https": "443"}
_ELSEWHERE = ("cross-site", "same-site")


def is_page(path: str) -> bool:
    """Whether a person opens this path as a page, which runs nothing by itself."""
    return path == "/" or path.startswith("/run/")


def is_foreign(scope: Scope, headers: Headers, settings: Settings) -> bool:
    """Whether a page of another site asks, and for more than to open a page here."""
    origins = headers.getlist("origin")
    if origins:
        return not all(_is_own(origin, headers["host"], settings) for origin in origins)
    comes_from = headers.getlist("sec-fetch-site")
    return any(site in _ELSEWHERE for site in comes_from) and not _opens_page(scope, headers)


def _opens_page(scope: Scope, headers: Headers) -> bool:
    """A link or an address bar: no frame, no image, no script, nothing fetched ahead."""
    return (
        scope.get("method") in ("GET", "HEAD")
        and is_page(scope["path"])
        and headers.getlist("sec-fetch-mode") == ["navigate"]
        and headers.getlist("sec-fetch-dest") == ["document"]
        and not headers.get("sec-purpose")
    )


def _is_own(origin: str, host: str, settings: Settings) -> bool:
    """The page's origin is where it asks, or the public one; schemes differ behind TLS."""
    if origin and origin.lower() == settings.public_origin:
        return True
    scheme, _, netloc = origin.lower().partition("://")
    port = _PORTS.get(scheme)
    host = host.lower()
    return port is not None and netloc in (host, host.removesuffix(f":{port}"))
