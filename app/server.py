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

from app.access.auth import Everybody, Guard, Prefix
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
from app.web.page_cache import KeptPages
from app.web.request_limits import RequestLimits
from app.web.security_headers import SafeHeaders
from app.web.whole_bodies import WholeBodies
from ingest.errors import UserError

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_FILE_THREADS = 4
_FOR_EVER = "public, max-age=31536000, immutable"
_MOST_POSTED = 4 << 20
"""Bytes of a callback's request; uploads have a route of their own."""


def make_app(
    hub: Hub, base: str = "", settings: Settings | None = None, sessions: Sessions | None = None
) -> Starlette:
    """The whole application for the runs of `hub`.

    Without settings nobody is checked and everybody may do everything: for tests in process.
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
        Mount("/", KeptPages(WholeBodies(WSGIMiddleware(pages, workers=8), _MOST_POSTED))),
    ]
    templates = {route.endpoint: route.path for route in routes if isinstance(route, Route)} | {
        routes[-1].app: "pages"
    }  # type: ignore[attr-defined]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Measured, templates=templates, dash_paths=_dash_paths(pages)),
            Middleware(SafeHeaders, pages=pages, public_origin=public_origin),
            Middleware(RequestLimits),
            Middleware(Prefix, base=settings.base if settings else base),
            Middleware(Guard, settings=settings, sessions=sessions)
            if settings
            else Middleware(Everybody),
            Middleware(GZipMiddleware, compresslevel=1),
        ],
        exception_handlers={UserError: _as_sentence, HTTPException: _as_sentence, 500: _failed},
    )


def _dash_paths(pages: Flask) -> frozenset[str]:
    """First parts of the paths that Dash has for itself; what else it is asked for is a page."""
    first = (rule.rule.strip("/").split("/")[0] for rule in pages.url_map.iter_rules())
    return frozenset(name for name in first if name.startswith("_"))


def _as_sentence(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse({"error": str(error)}, 403 if isinstance(error, Forbidden) else 400)


def _unknown(request: Request) -> Response:
    return JSONResponse(
        {"error": f"There is no {request.url.path}. Reload: this page is out of date."}, 404
    )


def _failed(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"error": "The server failed here; its own output says more."}, 500)


class _Assets:
    """Files of the browser side; read and packed once, in threads that queries do not use."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None
        self._kept: dict[str, Body] = {}

    async def answer(self, request: Request) -> Response:
        """A file; its path holds a version, so that it may be kept forever.

        Memory keeps each file under its own name alone, not under lib/../lib/app.mjs as well.
        """
        path = request.path_params["path"]
        # a page that is older than the server asks for files of a version that is no more
        is_known = request.path_params["version"] == assets_version()
        body = self._kept.get(path) if is_known else None
        if body is None:
            self._limiter = self._limiter or CapacityLimiter(_FILE_THREADS)  # wants an event loop
            body = await run_sync(_read, path, limiter=self._limiter)
            if body is None:
                return JSONResponse({"error": "There is no such file."}, 404)
            if is_known and path == posixpath.normpath(path):
                self._kept[path] = body
        response = body.response(request)
        response.headers["Cache-Control"] = _FOR_EVER if is_known else "no-cache"
        return response


def _read(path: str) -> Body | None:
    content = asset(path)
    return None if content is None else Body.of(content, TYPES[Path(path).suffix])
