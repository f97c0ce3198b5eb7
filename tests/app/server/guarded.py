"""An app of a few routes behind the guard, for tests of what passes it."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from app.access.auth import Guard, Prefix
from app.settings import Role, Settings, Token
from app.web.caller import ROLE, SESSION, Forbidden, require, require_page_header
from tests.app.server.asgi import Client

SECRET = "correct-horse-battery"
VIEW = "only-to-look-at-it"
SOCKET = "/api/live"
HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGE = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}


async def echo_path(request: Request) -> Response:
    return JSONResponse({"path": request.scope["path"]})


async def health(request: Request) -> Response:
    return JSONResponse({"is_known": ROLE in request.scope})


async def for_uploaders(request: Request) -> Response:
    try:
        require(request, Role.uploader)
    except Forbidden as error:
        return JSONResponse({"error": str(error)}, 403)
    return JSONResponse({})


async def run_it(request: Request) -> Response:
    try:
        require_page_header(request)
    except Forbidden as error:
        return JSONResponse({"error": str(error)}, 403)
    return JSONResponse({"session": request.scope[SESSION]})


async def socket(websocket: WebSocket) -> None:
    await websocket.accept()


def client(settings: Settings) -> Client:
    app = Starlette(
        routes=[
            Route("/healthz", health),
            Route("/run-it", run_it, methods=["POST"]),
            Route("/upload", for_uploaders, methods=["POST"]),
            WebSocketRoute(SOCKET, socket),
            Route("/{path:path}", echo_path, methods=["GET", "POST"]),
        ],
        middleware=[
            Middleware(Prefix, base=settings.base),
            Middleware(Guard, settings=settings),
        ],
    )
    return Client(app)


def with_two_tokens() -> Client:
    """Behind tokens of an operator and of a viewer, below /p."""
    tokens = (Token(SECRET), Token.parse(f"viewer={VIEW}"))
    return client(Settings(host="0.0.0.0", base="/p", tokens=tokens))
