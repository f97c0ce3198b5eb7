"""Access control: checks Host, Origin and token of every request and every socket.

Pure ASGI, before anything else sees a request. A foreign Host is DNS rebinding, a foreign Origin is
another site's page; both are refused. The rest of the server calls `require(request, role)`.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.access_files import digest_of
from app.access.cookies import add_visitor, cookies_of, set_cookie, visitor_of
from app.access.login_page import form_page, redirect_page
from app.access.origins import is_foreign, is_page
from app.access.sessions import Sessions
from app.access.wrong_tokens import PER_MINUTE, WrongTokens
from app.settings import Role, Settings
from app.web.caller import ANONYMOUS_SESSION, BEARER, JOB, JOB_SESSION, ROLE, SESSION, TOKEN
from app.web.connections import connection_of
from app.web.refusals import refuse, sentence

ANONYMOUS = ("/healthz",)
"""Paths that answer without a token; their answers reveal nothing about the runs."""
AGENT_PATH = "/agent"
"""The ranks' socket: no user's token opens it, and the job token opens nothing else."""
_AGAIN = "rankscope_again"
"""Query parameter of an address that this server redirected to, after a link from another site."""


@dataclass(frozen=True)
class _Caller:
    """Who sent a request: its role, its session and the digest of its token."""

    role: Role
    session: str
    token: str = ""
    is_program: bool = False


class Guard:
    """Refuses foreign hosts, foreign origins and requests without a valid token."""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions | None = None) -> None:
        self.app = app
        self.settings = settings
        self.sessions = sessions or Sessions()
        self.wrong_tokens = WrongTokens(settings)
        self._tokens = {digest_of(token.secret): token for token in settings.tokens}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through with its role, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        refusal = self._stranger(request)
        if refusal is None:
            if scope["type"] == "websocket" and scope["path"] == AGENT_PATH:
                refusal = self._rank(request)  # if None, the socket itself reports what is wrong
            elif not self.settings.tokens:
                refusal, send = self._visitor(request, send)
            else:
                refusal = await self._with_token(request)
        if refusal is None:
            await self.app(scope, receive, send)
        else:
            await refuse(refusal, scope, receive, send)

    def _stranger(self, request: HTTPConnection) -> Response | None:
        """The refusal for a host or a page that is not this server's."""
        headers = request.headers
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.settings.is_ours(hosts[0]):
            return sentence(
                403,
                f"This server does not answer as {' '.join(hosts)[:100]!r}. Use an address it "
                "was started for; behind a proxy start it with --public-url.",
            )
        if is_foreign(request.scope, headers, self.settings):
            return sentence(
                403,
                "This request came from a page of another site, which may only link to pages. "
                "Behind a proxy, start the server with --public-url and the address people see.",
            )
        return None

    def _rank(self, request: HTTPConnection) -> Response | None:
        bearer = _bearer(request.headers)
        is_job = _is_same(bearer, self.settings.job_token)
        request.scope[JOB] = is_job
        if is_job:
            return self._count(request, JOB_SESSION, is_rank=True)
        if bearer is None or self.wrong_tokens.count(request):
            return None
        return _too_many_wrong()

    def _visitor(self, request: HTTPConnection, send: Send) -> tuple[Response | None, Send]:
        """Without tokens, let every request in and distinguish browsers by a cookie."""
        visitor = visitor_of(request)
        if visitor is None and _is_visit(request) and is_page(request.scope["path"]):
            visitor, send = add_visitor(request, self.settings, send)
        session = digest_of(visitor) if visitor else ANONYMOUS_SESSION
        return self._let_in(request, _Caller(Role.operator, session)), send

    async def _with_token(self, request: HTTPConnection) -> Response | None:
        """Let in requests with a valid token and requests that need none."""
        secret = request.query_params.get("token")
        opens_page = _is_visit(request) and is_page(request.scope["path"])
        if secret is not None and opens_page:
            token = self._token_of(secret)
            return await self._log_in(request, token) if token else self._wrong(request)
        bearer = _bearer(request.headers)
        is_anonymous = request.scope["path"] in ANONYMOUS
        if is_anonymous and bearer and self.wrong_tokens.are_too_many(request):
            return None  # the token is not checked: the answer would reveal a valid one
        caller = self._program(bearer) if bearer is not None else self._browser(request)
        if caller is not None:
            refusal = self._let_in(request, caller)
            if refusal is None and opens_page and _AGAIN in request.query_params:
                return RedirectResponse(self._address(request), 303)
            return refusal
        if is_anonymous:
            if bearer:
                self.wrong_tokens.count(request)
            return None
        return self._wrong(request) if bearer else self._ask(request)

    def _let_in(self, request: HTTPConnection, caller: _Caller) -> Response | None:
        request.scope[ROLE] = caller.role
        request.scope[SESSION] = caller.session
        request.scope[TOKEN] = caller.token
        request.scope[BEARER] = caller.is_program
        return self._count(request, caller.session, caller.token)

    def _count(
        self, request: HTTPConnection, session: str, token: str = "", is_rank: bool = False
    ) -> Response | None:
        """Count the connection for its session; an error sentence if it has too many."""
        connection = connection_of(request.scope)
        if connection is None or connection.let_in(session, token, is_rank):
            return None
        return sentence(
            503,
            "You have the maximum number of connections to this server open; close some pages "
            "or programs, then try again.",
        )

    def _token_of(self, secret: str) -> str | None:
        """Digest of the token with this secret; compares all, so that timing reveals nothing."""
        digest = digest_of(secret)
        matches = [known for known in self._tokens if hmac.compare_digest(digest, known)]
        return next((match for match in matches if not self.sessions.is_revoked(match)), None)

    def _program(self, bearer: str) -> _Caller | None:
        token = self._token_of(bearer)
        return _Caller(self._tokens[token].role, token, token, True) if token else None

    def _browser(self, request: HTTPConnection) -> _Caller | None:
        sessions = map(self.sessions.find, cookies_of(request))
        session = next((known for known in sessions if known and known.token in self._tokens), None)
        if session is None:
            return None
        return _Caller(self._tokens[session.token].role, session.digest, session.token)

    async def _log_in(self, request: HTTPConnection, token: str) -> Response:
        """Begin a session and go to the same address without the token."""
        secret = await run_in_threadpool(self.sessions.open, token)
        answer = RedirectResponse(self._address(request), 303)
        set_cookie(answer, request, self.settings, secret)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    def _address(self, request: HTTPConnection, *more: tuple[str, str]) -> str:
        # one slash in front: //evil.example would lead to another site
        path = quote("/" + request.scope["path"].lstrip("/"), safe="/")
        parameters = [*_other_parameters(request), *more]
        query = urlencode(parameters, quote_via=quote, safe=",.")
        return f"{self.settings.base}{path}" + (f"?{query}" if query else "")

    def _wrong(self, request: HTTPConnection) -> Response:
        """Refuse a wrong token; a client that sends many of them waits."""
        if self.wrong_tokens.count(request):
            return self._ask(request, wrong=True)
        return _too_many_wrong()

    def _ask(self, request: HTTPConnection, wrong: bool = False) -> Response:
        """Ask for the token: with a form if a person opens a page, else with a JSON error.

        Browsers do not send a strict cookie when a person follows a link from another site. So this
        server redirects a request for a page without a cookie to itself, once. (Browsers do not
        send Sec-Fetch-Site over plain HTTP to other machines.)
        """
        text = "This token is not valid here." if wrong else "This server needs a token."
        headers = request.headers
        is_own_visit = headers.get("sec-fetch-site") in ("none", "same-origin")
        opens_page = _is_visit(request) and is_page(request.scope["path"])
        if not opens_page or "text/html" not in headers.get("accept", ""):
            answer: Response = JSONResponse({"error": text}, 401)
        elif wrong or is_own_visit or _AGAIN in request.query_params:
            action = self._address(request).partition("?")[0]
            answer = HTMLResponse(form_page(text, action, _other_parameters(request)), 401)
        else:
            address = self._address(request, (_AGAIN, "1"))
            answer = HTMLResponse(redirect_page(address), 401)
        answer.headers["WWW-Authenticate"] = 'Bearer realm="rankscope"'
        answer.headers["Cache-Control"] = "no-store"
        return answer


def _is_visit(request: HTTPConnection) -> bool:
    return request.scope["type"] == "http" and request.scope["method"] in ("GET", "HEAD")


def _bearer(headers: Headers) -> str | None:
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def _is_same(secret: str | None, known: str) -> bool:
    is_same = hmac.compare_digest(digest_of(secret or ""), digest_of(known))
    return secret is not None and bool(known) and is_same


def _other_parameters(request: HTTPConnection) -> list[tuple[str, str]]:
    query = request.scope["query_string"].decode("latin-1")
    pairs = parse_qsl(query, keep_blank_values=True)
    return [(name, value) for name, value in pairs if name not in ("token", _AGAIN)]


def _too_many_wrong() -> Response:
    answer = sentence(
        429,
        f"More than {PER_MINUTE} wrong tokens a minute came from your address; wait a "
        "minute. A valid token is accepted at any time.",
    )
    answer.headers["Retry-After"] = "60"
    answer.headers["Connection"] = "close"
    return answer


class NoGuard:
    """Grants every request all rights: for tests in process, never behind a socket."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on as from an operator's program; a socket also as from a rank."""
        scope[ROLE] = Role.operator
        scope[SESSION] = ANONYMOUS_SESSION
        scope[BEARER] = True
        scope[JOB] = True
        await self.app(scope, receive, send)


class Prefix:
    """Removes the base path from a request's path, if the proxy has not done so already."""

    def __init__(self, app: ASGIApp, base: str) -> None:
        self.app = app
        self.base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on as if there were no prefix."""
        path = scope.get("path", "")
        if self.base and (path == self.base or path.startswith(f"{self.base}/")):
            scope["path"] = path[len(self.base) :] or "/"
            raw = scope.get("raw_path") or b""
            if raw.startswith(self.base.encode()):
                scope["raw_path"] = raw[len(self.base) :] or b"/"
        await self.app(scope, receive, send)
