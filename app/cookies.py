"""The one cookie: a random id of a session, or, without tokens, one that tells browsers apart."""

from __future__ import annotations

import re
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Send

from app.access_files import LONGEST_S
from app.settings import Settings

_VISITOR = re.compile(r"[\w-]{32}", re.ASCII)


def cookie_name(request: HTTPConnection) -> str:
    """Bound to the port that the browser sees: cookies of one host reach all of its ports."""
    port = urlsplit(f"//{request.headers.get('host', '')}").port  # the guard has checked the host
    return f"rankscope_{port or 'default'}"


def cookie_of(request: HTTPConnection) -> str:
    """What the browser sent, '' for nothing."""
    name = cookie_name(request)
    try:
        morsel = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return morsel.value if morsel else ""


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
        cookie_name(request), secret, max_age=int(LONGEST_S), path=f"{settings.base}/",
        secure=is_encrypted, httponly=True, samesite="strict" if is_strict else "lax",
    )  # fmt: skip


def visitor_of(request: HTTPConnection) -> str | None:
    """The id of a browser that has no token because none is needed."""
    value = cookie_of(request)
    return value if _VISITOR.fullmatch(value) else None


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
