"""Who sent a request, as determined by app/access/auth.py, and what they may do.

The guard writes role, session and token digest into the ASGI scope; everything behind it reads them
there and calls `require(request, role)`.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from app.settings import Role
from ingest.errors import UserError

ROLE = "rankscope.role"
"""Key of the role in the ASGI scope; missing if the guard let nobody in."""
JOB = "rankscope.job"
"""Key in the ASGI scope: whether a socket came with the job token."""
JOB_SESSION = "job"
"""The session of all ranks, which share one limit on their connections."""
PAGE_HEADER = "x-rankscope"
"""Header, with any text, of the dashboard's own requests that run something: pages of other sites
cannot send it, because this server answers no CORS preflight."""
SESSION = "rankscope.session"
"""Key in the ASGI scope of the session that a request counts for: a digest, never a secret."""
TOKEN = "rankscope.token"
"""Key in the ASGI scope of the token's digest, which all its sessions share; '' without tokens."""
ANONYMOUS_SESSION = "anonymous"
"""The session of all requests with neither a token nor a cookie."""
BEARER = "rankscope.bearer"
"""Key in the ASGI scope: whether a request came with a valid Bearer token."""


class Forbidden(UserError):
    """The caller's role does not allow the request."""


def require(request: HTTPConnection, role: Role) -> None:
    """Return if the request's role includes `role`; raises Forbidden."""
    has: Role | None = request.scope.get(ROLE)
    if has is None or has < role:
        raise Forbidden(
            f"this needs the role {role.name}, yours is {has.name if has else 'none'}; "
            "ask whoever started the server for another token"
        )


def require_page_header(request: HTTPConnection) -> None:
    """Return if the request came from a page of this server or with a token; raises Forbidden."""
    if request.headers.get(PAGE_HEADER) or request.scope.get(BEARER):
        return
    raise Forbidden(
        "This request runs something, so it needs the header X-Rankscope with any text, which "
        "pages of other sites cannot send. Programs add 'X-Rankscope: 1' or, where the server has "
        "tokens, 'Authorization: Bearer TOKEN'."
    )
