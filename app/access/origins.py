"""Which requests come from pages of other sites, and the few of them that are allowed."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from app.settings import Settings

_PORTS = {"http": "80", "https": "443"}
_OTHER_SITES = ("cross-site", "same-site")


def is_page(path: str) -> bool:
    """Whether this path is a page; opening a page has no effect on the server."""
    return path in ("/", "/fleet") or path.startswith("/run/")


def is_foreign(scope: Scope, headers: Headers, settings: Settings) -> bool:
    """Whether a page of another site sent this request, and for more than to open a page here."""
    origins = headers.getlist("origin")
    if origins:
        return not all(_is_own(origin, headers["host"], settings) for origin in origins)
    comes_from = headers.getlist("sec-fetch-site")
    return any(site in _OTHER_SITES for site in comes_from) and not _opens_page(scope, headers)


def _opens_page(scope: Scope, headers: Headers) -> bool:
    """Whether it comes from a link or the address bar: not a frame, image, script or prefetch."""
    return (
        scope.get("method") in ("GET", "HEAD")
        and is_page(scope["path"])
        and headers.getlist("sec-fetch-mode") == ["navigate"]
        and headers.getlist("sec-fetch-dest") == ["document"]
        and not headers.get("sec-purpose")
    )


def _is_own(origin: str, host: str, settings: Settings) -> bool:
    """Whether the page's origin is this server or the public origin; schemes differ behind TLS."""
    if origin and origin.lower() == settings.public_origin:
        return True
    scheme, _, netloc = origin.lower().partition("://")
    port = _PORTS.get(scheme)
    host = host.lower()
    return port is not None and netloc in (host, host.removesuffix(f":{port}"))
