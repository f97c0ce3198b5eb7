"""The only cookie: a random session id; without tokens, an id that distinguishes browsers."""

from __future__ import annotations

import re
import secrets
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Send

from app.access.access_files import LONGEST_S
from app.settings import Settings

_VISITOR = re.compile(r"[\w-]{32}", re.ASCII)
_MOST_OF_ONE_NAME = 8


def cookie_name(request: HTTPConnection) -> str:
    """The cookie's name, with the port that the browser sees: a host's ports share its cookies."""
    port = urlsplit(f"//{request.headers.get('host', '')}").port  # the guard has checked the host
    return f"rankscope_{port or 'default'}"


def cookies_of(request: HTTPConnection) -> list[str]:
    """The values that the browser sent under our name.

    Servers on other ports of the same host may set cookies that no parser accepts, or a cookie of
    our name for some of our paths: neither locks out a browser that also has a valid cookie.
    """
    name = cookie_name(request)
    pairs = (pair.partition("=") for pair in ";".join(request.headers.getlist("cookie")).split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name][:_MOST_OF_ONE_NAME]


def set_cookie(
    answer: Response,
    request: HTTPConnection,
    settings: Settings,
    secret: str,
    is_strict: bool = True,
) -> None:
    """Set the cookie with the browser's id."""
    is_encrypted = settings.is_encrypted or settings.public_origin.startswith("https:")
    answer.set_cookie(
        cookie_name(request),
        secret,
        max_age=int(LONGEST_S),
        path=f"{settings.base}/",
        secure=is_encrypted,
        httponly=True,
        samesite="strict" if is_strict else "lax",
    )


def visitor_of(request: HTTPConnection) -> str | None:
    """The browser's id on a server without tokens."""
    return next(filter(_VISITOR.fullmatch, cookies_of(request)), None)


def add_visitor(request: HTTPConnection, settings: Settings, send: Send) -> tuple[str, Send]:
    """A new id, and a `send` that sets it as a cookie with the answer.

    The id grants no access, so browsers may send it with links from other sites.
    """
    visitor = secrets.token_urlsafe(24)
    holder = Response()
    set_cookie(holder, request, settings, visitor, is_strict=False)

    async def send_with_cookie(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).append("Set-Cookie", holder.headers["set-cookie"])
        await send(message)

    return visitor, send_with_cookie
