"""How a server is reached and by whom: address, prefix, public name, tokens. Checked at birth."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from urllib.parse import urlsplit

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8050
SHORTEST_TOKEN = 8
_BASE = re.compile(r"(/[\w.~@:-]+)*")
_OURS = ("run", "api", "agent", "live", "assets", "healthz", "metrics", "_dash", "_favicon")
"""First parts of the server's own paths: a prefix that begins so could not be told from them."""


class Role(IntEnum):
    """What somebody may do; each role includes those before it."""

    viewer = 1
    uploader = 2
    operator = 3


@dataclass(frozen=True)
class Token:
    """A secret and what it allows; raises ValueError for one that is easily guessed."""

    secret: str
    role: Role = Role.operator

    def __post_init__(self) -> None:
        _check_secret(self.secret)

    @staticmethod
    def parse(text: str) -> Token:
        """`SECRET` or `ROLE=SECRET`; raises ValueError."""
        name, equals, secret = text.partition("=")
        if equals and name in Role.__members__:
            return Token(secret, Role[name])
        return Token(text)


@dataclass(frozen=True)
class Settings:
    """Raises ValueError naming the value and the remedy.

    `base` is '' or '/prefix', what `public_url` ends with unless it is given. `job_token` is what
    ranks of training jobs connect with, '' lets none in.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    public_url: str = ""
    base: str = ""
    tokens: tuple[Token, ...] = ()
    job_token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"--port is {self.port}; give 0 (any free one) to 65535")
        public = urlsplit(self.public_url)
        if self.public_url and (public.scheme not in ("http", "https") or not public.hostname):
            raise ValueError(
                f"--public-url is {self.public_url!r}; give a whole URL, such as "
                "https://hub.example.org/user/x/proxy/8050"
            )
        base = "/" + (self.base or public.path).strip("/")
        base = "" if base == "/" else base
        if not _BASE.fullmatch(base) or ".." in base.split("/"):
            raise ValueError(f"--base-path is {self.base!r}; give a path such as /proxy/8050")
        if base[1:].split("/")[0].startswith(_OURS):
            raise ValueError(
                f"--base-path {base} begins like a path of the dashboard; put another part before"
            )
        object.__setattr__(self, "base", base)
        self._check_job_token()

    def _check_job_token(self) -> None:
        if self.job_token:
            _check_secret(self.job_token)
        if self.job_token in {token.secret for token in self.tokens}:
            raise ValueError("--job-token is a --token as well; give jobs a secret of their own")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def public_origin(self) -> str:
        """Scheme and host of the public URL, '' without one."""
        public = urlsplit(self.public_url)
        return f"{public.scheme}://{public.netloc}".lower() if self.public_url else ""

    def url(self, port: int) -> str:
        """Where people open the start page, for the port in use."""
        if self.public_url:
            return f"{self.public_origin}{self.base}/"
        host = socket.gethostname() if _is_wildcard(self.host) else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{port}{self.base}/"

    def job_server(self, port: int) -> str:
        """What TRACE_HOOKS_SERVER is set to in jobs whose ranks shall be watched live."""
        return "ws" + self.url(port).removeprefix("http").rstrip("/")

    def is_ours(self, host: str) -> bool:
        """Whether a Host header (with or without port) names this server.

        Loopback names, the address listened on and the public name do. Where all addresses are
        listened on, every bare IP address does too: DNS rebinding needs a name.
        """
        name = host_name(host)
        if name is None:
            return False
        if is_loopback(name) or name in (self.host.lower(), urlsplit(self.public_url).hostname):
            return True
        if not _is_wildcard(self.host):
            return False
        return _is_address(name) or name in _names_of_machine()


def _check_secret(secret: str) -> None:
    if len(secret) < SHORTEST_TOKEN or not secret.isprintable():
        raise ValueError(f"a token needs {SHORTEST_TOKEN} visible characters or more")


@cache
def _names_of_machine() -> tuple[str, str]:
    """Its names; asked for once, as it may take a name server."""
    return socket.gethostname().lower(), socket.getfqdn().lower()


def host_name(host: str) -> str | None:
    """Name or address in a Host header, lower case, None where it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for one that is no number
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return None
    return parts.hostname.rstrip(".") if parts.hostname else None


def is_loopback(name: str) -> bool:
    """Whether a name or address is this machine's own and nobody else's."""
    return name.lower() == "localhost" or (
        _is_address(name) and ipaddress.ip_address(name).is_loopback
    )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_wildcard(name: str) -> bool:
    return name == "" or (_is_address(name) and ipaddress.ip_address(name).is_unspecified)
