"""The server: one ASGI app that owns files, data and sockets; Dash on Flask serves the pages."""

from __future__ import annotations

import posixpath
from pathlib import Path

from a2wsgi import WSGIMiddleware
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from flask import Flask
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from app.access.auth import Guard, NoGuard, Prefix
from app.access.sessions import Sessions
from app.dash_shell import make_dash
from app.routes import ROUTES
from app.routes.context import RouteContext
from app.runs.hub import Hub
from app.settings import Settings
from app.web.answers import Body
from app.web.assets import TYPES, asset, assets_version
from app.web.caller import Forbidden
from app.web.metrics import Measured
from app.web.page_cache import PageCache
from app.web.request_limits import RequestLimits
from app.web.security_headers import SecurityHeaders
from app.web.whole_bodies import WholeBodies
from ingest.errors import UserError

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_FILE_THREADS = 4
_IMMUTABLE = "public, max-age=31536000, immutable"
_MOST_POSTED = 4 << 20
"""Bytes of a callback's request; uploads have their own route."""


def make_app(
    hub: Hub, base: str = "", settings: Settings | None = None, sessions: Sessions | None = None
) -> Starlette:
    """The whole application for the runs of `hub`.

    Without settings there are no access checks: for tests in process.
    """
    pages = make_dash(hub, settings.base if settings else base).server
    pages.config["MAX_CONTENT_LENGTH"] = _MOST_POSTED
    public_origin = settings.public_origin if settings else ""
    public_root = f"{public_origin}{settings.base}" if settings and public_origin else ""
    context = RouteContext(hub, public_root)
    routes: list[BaseRoute] = [
        Route("/assets/{version}/{path:path}", _Assets().answer),
        *(route for module in ROUTES for route in module.routes(context)),
        Route("/api/{path:path}", _unknown, methods=_METHODS),
        Mount("/", PageCache(WholeBodies(WSGIMiddleware(pages, workers=8), _MOST_POSTED))),
    ]
    templates = {route.endpoint: route.path for route in routes if isinstance(route, Route)} | {
        routes[-1].app: "pages"
    }  # type: ignore[attr-defined]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Measured, templates=templates, dash_paths=_dash_paths(pages)),
            Middleware(SecurityHeaders, pages=pages, public_origin=public_origin),
            Middleware(RequestLimits),
            Middleware(Prefix, base=settings.base if settings else base),
            Middleware(Guard, settings=settings, sessions=sessions)
            if settings
            else Middleware(NoGuard),
            Middleware(GZipMiddleware, compresslevel=1),
        ],
        exception_handlers={UserError: _as_sentence, HTTPException: _as_sentence, 500: _failed},
    )


def _dash_paths(pages: Flask) -> frozenset[str]:
    """First parts of the paths that Dash reserves; any other path is a page."""
    first = (rule.rule.strip("/").split("/")[0] for rule in pages.url_map.iter_rules())
    return frozenset(name for name in first if name.startswith("_"))


def _as_sentence(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse({"error": str(error)}, 403 if isinstance(error, Forbidden) else 400)


def _unknown(request: Request) -> Response:
    text = f"There is no {request.url.path}. Reload: this page is out of date."
    return JSONResponse({"error": text}, 404)


def _failed(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"error": "The server failed here; see its log for details."}, 500)


class _Assets:
    """The browser's files; read and compressed once, in threads that queries do not use."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None
        self._loaded: dict[str, Body] = {}

    async def answer(self, request: Request) -> Response:
        """A file; its path contains a version, so that browsers may cache it forever.

        Memory caches each file under its own name only, not also under lib/../lib/app.mjs.
        """
        path = request.path_params["path"]
        # a page loaded before an update of the server requests files of the old version
        is_known = request.path_params["version"] == assets_version()
        body = self._loaded.get(path) if is_known else None
        if body is None:
            self._limiter = self._limiter or CapacityLimiter(_FILE_THREADS)  # needs an event loop
            body = await run_sync(_read, path, limiter=self._limiter)
            if body is None:
                return JSONResponse({"error": "There is no such file."}, 404)
            if is_known and path == posixpath.normpath(path):
                self._loaded[path] = body
        response = body.response(request)
        response.headers["Cache-Control"] = _IMMUTABLE if is_known else "no-cache"
        return response


def _read(path: str) -> Body | None:
    content = asset(path)
    return None if content is None else Body.of(content, TYPES[Path(path).suffix])
