"""Whom a request is from, as app/access/auth.py has found out, and what they may do.

The guard writes role, session and token's digest into the ASGI scope; everything behind it reads
them there and asks `require(request, role)`.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from app.settings import Role
from ingest.errors import UserError

ROLE = "rankscope.role"
"""Key of the role in the ASGI scope; missing where nobody was let in."""
JOB = "rankscope.job"
"""Key in the ASGI scope that says whether a socket came with the job token."""
JOB_SESSION = "job"
"""The session of all ranks, which have one bound on their connections."""
PAGE_HEADER = "x-rankscope"
"""Header, with any text, of the dashboard's own requests that run something: a page of another site
cannot send it, since this server answers no CORS preflight."""
SESSION = "rankscope.session"
"""Key in the ASGI scope of whom a request counts for: a digest, never a secret."""
TOKEN = "rankscope.token"
"""Key in the ASGI scope of the token's digest, which all its sessions have in common; '' where none
is needed."""
ANONYMOUS_SESSION = "anonymous"
"""The session of everybody who sent neither a token nor a cookie."""
BEARER = "rankscope.bearer"
"""Key in the ASGI scope that says whether a request came with a valid Bearer token."""


class Forbidden(UserError):
    """Somebody known asked for what their role does not allow."""


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
