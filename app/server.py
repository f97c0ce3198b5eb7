"""The server: one ASGI app that owns files, data and sockets; Dash on Flask serves the pages."""

from __future__ import annotations

from a2wsgi import WSGIMiddleware
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from app.asset_files import assets_folder, assets_version
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
from app.safe_headers import SafeHeaders
from app.settings import Settings
from app.shell import make_dash
from ingest.errors import UserError

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
TYPES = {".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_MOST_POSTED = 4 << 20
"""Bytes of a callback's request; uploads have a route of their own."""


def make_app(hub: Hub, base: str = "", settings: Settings | None = None) -> Starlette:
    """The whole application for the runs of `hub`.

    Without settings nobody is checked and everybody may do everything: for tests in process.
    """
    pages = make_dash(hub, settings.base if settings else base).server
    pages.config["MAX_CONTENT_LENGTH"] = _MOST_POSTED
    public_origin = settings.public_origin if settings else ""
    public_root = f"{public_origin}{settings.base}" if settings and public_origin else ""
    routes: list[BaseRoute] = [
        Route("/assets/{version}/{path:path}", _asset),
        *health.routes(hub),
        *live.routes(hub),
        *runs.routes(hub),
        *uploads.routes(hub),
        *share.routes(hub, public_root),
        *query.routes(hub),
        *ranks.routes(hub),
        *findings.routes(hub),
        *overview.routes(hub),
        *timeline.routes(hub),
        Route("/api/{path:path}", _unknown, methods=_METHODS),
        Mount("/", WSGIMiddleware(pages, workers=8)),
    ]
    templates = {route.endpoint: route.path for route in routes if isinstance(route, Route)} | {
        routes[-1].app: "pages"
    }  # type: ignore[attr-defined]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Measured, templates=templates),
            Middleware(SafeHeaders, pages=pages, public_origin=public_origin),
            Middleware(Prefix, base=settings.base if settings else base),
            Middleware(Guard, settings=settings) if settings else Middleware(Everybody),
            Middleware(GZipMiddleware, compresslevel=1),
        ],
        exception_handlers={UserError: _as_sentence, HTTPException: _as_sentence, 500: _failed},
    )


def _as_sentence(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse({"error": str(error)}, 403 if isinstance(error, Forbidden) else 400)


def _unknown(request: Request) -> Response:
    return JSONResponse({"error": f"There is no {request.url.path}; is the page older?"}, 404)


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
    # a page that is older than the server asks for files of a version that is no more
    is_known = request.path_params["version"] == assets_version()
    kept = "public, max-age=31536000, immutable" if is_known else "no-cache"
    return FileResponse(path, media_type=TYPES[path.suffix], headers={"Cache-Control": kept})
