"""The server: one ASGI app that owns files, data and sockets; Dash on Flask serves the pages."""

from __future__ import annotations

import base64
import hashlib
import re

from a2wsgi import WSGIMiddleware
from flask import Flask
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.asset_files import assets_folder
from app.auth import Everybody, Forbidden, Guard, Prefix
from app.hub import Hub
from app.metrics import Measured
from app.routes import (
    findings,
    health,
    live,
    overview,
    query,
    ranks,
    runs,
    share,
    timeline,
    uploads,
)
from app.settings import Settings
from app.shell import make_dash
from ingest.errors import UserError

TYPES = {".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_CSP = (
    "default-src 'self'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_MOST_POSTED = 4 << 20
"""Bytes of a callback's request; uploads have a route of their own."""
_INLINE_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)


def make_app(hub: Hub, base: str = "", settings: Settings | None = None) -> Starlette:
    """The whole application for the runs of `hub`.

    Without settings nobody is checked and everybody may do everything: for tests in process.
    """
    pages = make_dash(hub, settings.base if settings else base).server
    pages.config["MAX_CONTENT_LENGTH"] = _MOST_POSTED
    routes: list[BaseRoute] = [
        Route("/assets/{version}/{path:path}", _asset),
        *health.routes(hub),
        *live.routes(hub),
        *runs.routes(hub),
        *uploads.routes(hub),
        *share.routes(hub, settings.public_url if settings else ""),
        *query.routes(hub),
        *ranks.routes(hub),
        *findings.routes(hub),
        *overview.routes(hub),
        *timeline.routes(hub),
        Mount("/", WSGIMiddleware(pages, workers=8)),
    ]
    templates = {route.endpoint: route.path for route in routes if isinstance(route, Route)} | {
        routes[-1].app: "pages"
    }  # type: ignore[attr-defined]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Measured, templates=templates),
            Middleware(SafeHeaders, headers={**_HEADERS, "Content-Security-Policy": _csp(pages)}),
            Middleware(Prefix, base=settings.base if settings else base),
            Middleware(Guard, settings=settings) if settings else Middleware(Everybody),
            Middleware(GZipMiddleware, compresslevel=1),
        ],
        exception_handlers={UserError: _as_sentence, HTTPException: _as_sentence, 500: _failed},
    )


class SafeHeaders:
    """Adds to every answer what keeps browsers from trusting it too much."""

    def __init__(self, app: ASGIApp, headers: dict[str, str]) -> None:
        self.app = app
        self.headers = [(k.lower().encode(), v.encode()) for k, v in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self.headers]
            await send(message)

        await self.app(scope, receive, send_more if scope["type"] == "http" else send)


def _csp(pages: Flask) -> str:
    """Content-Security-Policy that lets run what the page itself holds, by its hash."""
    page = pages.test_client().get("/").get_data(as_text=True)
    hashes = {
        base64.b64encode(hashlib.sha256(script["text"].encode()).digest()).decode()
        for script in _INLINE_SCRIPT.finditer(page)
        if "src=" not in script["attributes"] and "json" not in script["attributes"]
    }
    return _CSP.format(hashes=" ".join(f"'sha256-{one}'" for one in sorted(hashes)))


def _as_sentence(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse({"error": str(error)}, 403 if isinstance(error, Forbidden) else 400)


def _failed(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"error": "The server failed here; its own output says more."}, 500)


def _asset(request: Request) -> Response:
    """A file of the browser side; its path holds a version, so that it may be kept for ever."""
    folder = assets_folder().resolve()
    try:
        path = (folder / request.path_params["path"]).resolve()
        is_ours = path.is_relative_to(folder) and path.suffix in TYPES and path.is_file()
    except (OSError, ValueError):  # too long a name, a null byte
        is_ours = False
    if not is_ours:
        return JSONResponse({"error": "There is no such file."}, 404)
    return FileResponse(
        path, media_type=TYPES[path.suffix],
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )  # fmt: skip
