"""Who may ask the server for what: Host, Origin and token of every request and every socket.

Pure ASGI, before anything else sees a request. A foreign Host is DNS rebinding, a foreign Origin is
another site's page; both are refused. The rest of the server asks `require(request, role)`.
"""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.settings import Role, Settings, Token
from app.token_page import asking_page, coming_again_page
from ingest.errors import UserError

ANONYMOUS = ("/healthz",)
"""Paths that answer without a token; what they say tells nothing of the runs."""
ROLE = "rankscope.role"
"""Key of the role in the ASGI scope; missing where nobody was let in."""
AGENT_PATH = "/agent"
"""Socket of the ranks: no token of people opens it, and the job token opens nothing else."""
JOB = "rankscope.job"
"""Key in the ASGI scope that says whether the job token was given."""
PAGE_HEADER = "x-rankscope"
"""Header, with any text, of the dashboard's own requests that run something: a page of another site
cannot send it, since this server answers no CORS preflight."""
SESSION = "rankscope.session"
"""Key in the ASGI scope of whom a request counts for: a digest, never a secret."""
ANONYMOUS_SESSION = "anonymous"
"""The session of everybody who sent neither a token nor a cookie."""
BEARER = "rankscope.bearer"
"""Key in the ASGI scope that says whether a request came with a valid Bearer token."""
_AGAIN = "rankscope_again"
"""Parameter of an address that a browser came to by itself, after a link of another site."""
_YEAR_S = 31_536_000
_PORTS = {"http": "80", "https": "443"}


class Forbidden(UserError):
    """Somebody known asked for what his role does not allow."""


def require(request: HTTPConnection, role: Role) -> None:
    """Return if the request's role includes `role`; raises Forbidden."""
    has: Role | None = request.scope.get(ROLE)
    if has is None or has < role:
        raise Forbidden(
            f"this needs the role {role.name}, yours is {has.name if has else 'none'}; "
            "ask whoever started the server for another token"
        )


def require_page_header(request: HTTPConnection) -> None:
    """Return if the request came from a page of this server, or with a token; raises Forbidden."""
    if request.headers.get(PAGE_HEADER) or request.scope.get(BEARER):
        return
    raise Forbidden(
        "This request runs something, so it needs the header X-Rankscope with any text, which "
        "pages of other sites cannot send. Programs add 'X-Rankscope: 1' or, where the server has "
        "tokens, 'Authorization: Bearer TOKEN'."
    )


class Guard:
    """Refuses foreign hosts, foreign origins and requests without a valid token."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        secrets = "\n".join(token.secret for token in settings.tokens)
        self._cookie = f"rankscope_{_digest(secrets)[:8]}"  # cookies ignore ports: one per server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through with its role, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before accept: HTTP 403
        else:
            await refusal(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        request = HTTPConnection(scope)
        headers = request.headers
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.settings.is_ours(hosts[0]):
            return _sentence(
                403, f"This server does not answer as {' '.join(hosts)[:100]!r}. Use an address it "
                "was started for; behind a proxy start it with --public-url."
            )  # fmt: skip
        if self._is_foreign(headers, scope):
            return _sentence(
                403, "This request came from a page of another site. Behind a proxy start the "
                "server with --public-url and the address that people see."
            )  # fmt: skip
        if scope["type"] == "websocket" and scope["path"] == AGENT_PATH:
            scope[JOB] = self._is_job(headers)
            return None  # the socket tells its rank what is wrong
        if not self.settings.tokens:
            scope[ROLE] = Role.operator
            scope[SESSION] = ANONYMOUS_SESSION
            return None
        return self._without_token(request)

    def _is_job(self, headers: Headers) -> bool:
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        known = self.settings.job_token
        same = hmac.compare_digest(_digest(secret.strip()), _digest(known))
        return scheme.lower() == "bearer" and bool(known) and same

    def _is_foreign(self, headers: Headers, scope: Scope) -> bool:
        origins = headers.getlist("origin")
        if origins:
            return not all(self._is_own(origin, headers["host"]) for origin in origins)
        site = headers.get("sec-fetch-site", "none")
        is_visit = (
            scope.get("method") in ("GET", "HEAD")
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )
        return site in ("cross-site", "same-site") and not is_visit

    def _is_own(self, origin: str, host: str) -> bool:
        """The page's origin is where it asks, or the public one; schemes differ behind TLS."""
        if origin and origin.lower() == self.settings.public_origin:
            return True
        scheme, _, netloc = origin.lower().partition("://")
        port = _PORTS.get(scheme)
        host = host.lower()
        return port is not None and netloc in (host, host.removesuffix(f":{port}"))

    def _without_token(self, request: HTTPConnection) -> Response | None:
        """Set the role of the request's token; what to answer where it has none."""
        scope = request.scope
        given = request.query_params.get("token")
        visit = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if given is not None and visit:
            token = self._token_of(given)
            return self._remember(request, token) if token else self._ask(request, wrong=True)
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            token = self._token_of(secret.strip())
        else:
            token = self._token_of_cookie(request.headers.get("cookie", ""))
        if token is not None:
            scope[ROLE] = token.role
            scope[SESSION] = _digest(token.secret)
            scope[BEARER] = scheme.lower() == "bearer"
            if visit and _AGAIN in request.query_params:
                return RedirectResponse(self._address(request), 303)
        elif scope["path"] not in ANONYMOUS:
            return self._ask(request, wrong=False)
        return None

    def _token_of(self, secret: str) -> Token | None:
        return self._first([hmac.compare_digest(_digest(secret), _digest(token.secret))
                            for token in self.settings.tokens])  # fmt: skip

    def _token_of_cookie(self, header: str) -> Token | None:
        try:
            morsel = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return None
        value = morsel.value if morsel else ""
        return self._first([hmac.compare_digest(value.encode(), _cookie_value(token).encode())
                            for token in self.settings.tokens])  # fmt: skip

    def _first(self, matches: list[bool]) -> Token | None:
        """All are compared before one is picked, so that time tells nothing."""
        return next((t for t, ok in zip(self.settings.tokens, matches, strict=True) if ok), None)

    def _remember(self, request: HTTPConnection, token: Token) -> Response:
        """Set the cookie and go to the same address without the token."""
        answer = RedirectResponse(self._address(request), 303)
        answer.set_cookie(
            self._cookie, _cookie_value(token), max_age=_YEAR_S, path=f"{self.settings.base}/",
            secure=self.settings.public_origin.startswith("https:"), httponly=True,
            samesite="strict",
        )  # fmt: skip
        answer.headers["Cache-Control"] = "no-store"
        return answer

    def _address(self, request: HTTPConnection, *more: tuple[str, str]) -> str:
        # one slash in front: //evil.example would lead to another site
        path = quote("/" + request.scope["path"].lstrip("/"), safe="/")
        parameters = [*_other_parameters(request), *more]
        query = urlencode(parameters, quote_via=quote, safe=",.")
        return f"{self.settings.base}{path}" + (f"?{query}" if query else "")

    def _ask(self, request: HTTPConnection, wrong: bool) -> Response:
        """Ask for the token.

        Browsers send a strict cookie along no link of another site: who has none comes again, once,
        from here. (Sec-Fetch-Site would tell, but is not sent to plain HTTP beyond this machine.)
        """
        text = "This token is not known here." if wrong else "This server needs a token."
        headers = request.headers
        came_by_itself = headers.get("sec-fetch-site") in ("none", "same-origin")
        if "text/html" not in headers.get("accept", ""):
            answer: Response = JSONResponse({"error": text}, 401)
        elif wrong or came_by_itself or _AGAIN in request.query_params:
            action = self._address(request).partition("?")[0]
            answer = HTMLResponse(asking_page(text, action, _other_parameters(request)), 401)
        else:
            address = self._address(request, (_AGAIN, "1"))
            answer = HTMLResponse(coming_again_page(address), 401)
        answer.headers["WWW-Authenticate"] = 'Bearer realm="rankscope"'
        answer.headers["Cache-Control"] = "no-store"
        return answer


def _other_parameters(request: HTTPConnection) -> list[tuple[str, str]]:
    query = request.scope["query_string"].decode("latin-1")
    pairs = parse_qsl(query, keep_blank_values=True)
    return [(name, value) for name, value in pairs if name not in ("token", _AGAIN)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _cookie_value(token: Token) -> str:
    """Not the token itself: who reads a cookie jar cannot use it elsewhere."""
    return _digest(f"rankscope cookie {token.secret}")


def _sentence(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)


class Everybody:
    """Lets everybody do everything: for tests in process, never behind a socket."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on as an operator's program, a socket as a rank's, too."""
        scope[ROLE] = Role.operator
        scope[SESSION] = ANONYMOUS_SESSION
        scope[BEARER] = True
        scope[JOB] = True
        await self.app(scope, receive, send)


class Prefix:
    """Takes the base path off a request's path, where the proxy has not done so already."""

    def __init__(self, app: ASGIApp, base: str) -> None:
        self.app = app
        self.base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on as if there were no prefix."""
        path = scope.get("path", "")
        if self.base and (path == self.base or path.startswith(f"{self.base}/")):
            scope["path"] = path[len(self.base) :] or "/"
            raw = scope.get("raw_path") or b""
            if raw.startswith(self.base.encode()):
                scope["raw_path"] = raw[len(self.base) :] or b"/"
        await self.app(scope, receive, send)
