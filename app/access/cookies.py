"""The one cookie: a random id of a session, or, without tokens, one that tells browsers apart."""

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
    """Bound to the port that the browser sees: cookies of one host reach all of its ports."""
    port = urlsplit(f"//{request.headers.get('host', '')}").port  # the guard has checked the host
    return f"rankscope_{port or 'default'}"


def cookies_of(request: HTTPConnection) -> list[str]:
    """What the browser sent under our name.

    Servers on other ports of the same host may set cookies that no parser takes, or one of our name
    for a part of our paths: neither keeps a browser out that has a valid one as well.
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
    """Give the browser its id."""
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
    """The id of a browser that has no token because none is needed."""
    return next(filter(_VISITOR.fullmatch, cookies_of(request)), None)


def add_visitor(request: HTTPConnection, settings: Settings, send: Send) -> tuple[str, Send]:
    """A new id, and a `send` that gives it to the browser with the answer.

    It opens nothing, so links of other sites may carry it.
    """
    visitor = secrets.token_urlsafe(24)
    holder = Response()
    set_cookie(holder, request, settings, visitor, is_strict=False)

    async def send_with_cookie(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).append("Set-Cookie", holder.headers["set-cookie"])
        await send(message)

    return visitor, send_with_cookie
