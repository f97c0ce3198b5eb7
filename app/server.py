"""The server: one ASGI app that owns files, data and sockets; Dash on Flask serves the pages."""

from __future__ import annotations

from pathlib import Path

from a2wsgi import WSGIMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from app.asset_files import assets_folder
from app.hub import Hub
from app.routes import ranks, runs
from app.shell import make_dash

TYPES = {".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def make_app(hub: Hub, base: str = "") -> Starlette:
    """The whole application for the runs of `hub`."""
    routes = [
        Route("/assets/{version}/{path:path}", _asset),
        *runs.routes(hub),
        *ranks.routes(hub),
        Mount("/", WSGIMiddleware(make_dash(hub, base).server, workers=8)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(GZipMiddleware, compresslevel=1)])


def _asset(request: Request) -> Response:
    """A file of the browser side; its path holds a version, so that it may be kept for ever."""
    folder = assets_folder().resolve()
    path = (folder / request.path_params["path"]).resolve()
    if not path.is_relative_to(folder) or path.suffix not in TYPES or not path.is_file():
        return PlainTextResponse("no such file", 404)
    return FileResponse(
        path, media_type=TYPES[path.suffix],
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )  # fmt: skip


def serve(runs: Path, host: str, port: int) -> None:
    """Serve until interrupted."""
    import uvicorn

    hub = Hub(runs)
    try:
        uvicorn.run(
            make_app(hub), host=host, port=port, ws="websockets-sansio", log_level="warning"
        )
    finally:
        hub.close()
