"""Settings of a server, checked when created: address, public name, TLS, tokens, proxies."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from urllib.parse import urlsplit

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8050
SHORTEST_TOKEN = 16
_BASE = re.compile(r"(/[\w.~@:-]+)*")
_OURS = ("run", "api", "agent", "live", "assets", "healthz", "metrics", "_dash", "_favicon")
"""First parts of the server's own paths: a prefix that begins with one would be ambiguous."""


class Role(IntEnum):
    """What a user may do; each role includes those before it."""

    viewer = 1
    uploader = 2
    operator = 3


@dataclass(frozen=True)
class Token:
    """A secret and its role; raises ValueError for a secret that is easily guessed."""

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

    `base` is '' or '/prefix', by default the path of `public_url`. Ranks of training jobs connect
    with `job_token`; '' lets none in. The server believes the X-Forwarded-For of `trusted_proxies`
    (addresses or networks). `certfile` and `keyfile` (PEM) make the server speak TLS.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    public_url: str = ""
    base: str = ""
    tokens: tuple[Token, ...] = ()
    job_token: str = field(default="", repr=False)
    trusted_proxies: tuple[str, ...] = ()
    certfile: str = ""
    keyfile: str = ""

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
                f"--base-path {base} begins like a path of the dashboard; put another part in front"
            )
        object.__setattr__(self, "base", base)
        if public.hostname and not is_loopback(public.hostname) and not self.tokens:
            raise ValueError(
                f"--public-url names {public.hostname}, which others reach, and there is no token: "
                "everybody who reaches it could do everything; give --token ROLE=SECRET as well"
            )
        self._check_job_token()
        _ = self.proxy_networks
        self._check_certificate()

    def _check_job_token(self) -> None:
        if self.job_token:
            _check_secret(self.job_token)
        if self.job_token in {token.secret for token in self.tokens}:
            raise ValueError("--job-token is also a --token; give jobs a separate secret")

    def _check_certificate(self) -> None:
        if self.keyfile and not self.certfile:
            raise ValueError("--keyfile is given without --certfile; give the certificate as well")
        for option, name in (("--certfile", self.certfile), ("--keyfile", self.keyfile)):
            if name:
                _check_readable(option, Path(name))
        if not self.certfile:
            return
        try:  # a key with a password cannot be used: nobody could type it in
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                self.certfile, self.keyfile or None, password=""
            )
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(
                f"--certfile {self.certfile} and --keyfile {self.keyfile or self.certfile} cannot "
                f"be used for TLS ({error}); give a PEM certificate and its key, without a password"
            ) from error

    @cached_property
    def proxy_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """Networks of the declared proxies."""
        try:
            return tuple(ipaddress.ip_network(text) for text in self.trusted_proxies)
        except ValueError as error:
            raise ValueError(
                f"--trusted-proxy: {error}; give an address or a network such as 10.0.0.0/24"
            ) from error

    @property
    def is_encrypted(self) -> bool:
        """Whether the server itself speaks TLS."""
        return bool(self.certfile)

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
        """URL of the start page, for the port in use."""
        if self.public_url:
            return f"{self.public_origin}{self.base}/"
        host = socket.gethostname() if _is_wildcard(self.host) else self.host
        scheme = "https" if self.is_encrypted else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{self.base}/"

    def job_server(self, port: int) -> str:
        """Value of TRACE_HOOKS_SERVER for jobs whose ranks connect to this server."""
        return "ws" + self.url(port).removeprefix("http").rstrip("/")

    def is_ours(self, host: str) -> bool:
        """Whether a Host header (with or without port) names this server.

        Loopback names, the server's address and its public name do. If the server listens on all
        addresses, every bare IP address does too: DNS rebinding needs a name.
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
        raise ValueError(
            f"a token needs {SHORTEST_TOKEN} visible characters or more; "
            "`openssl rand -hex 16` makes one"
        )


def _check_readable(option: str, path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(
            f"{option} {path} cannot be read ({error.strerror}); give a PEM file that this user "
            "may read"
        ) from error


@cache
def _names_of_machine() -> tuple[str, str]:
    """This machine's names; cached, as finding them may need a name server."""
    return socket.gethostname().lower(), socket.getfqdn().lower()


def host_name(host: str) -> str | None:
    """Name or address in a Host header, lower case; None if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises if it is not a number
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return None
    return parts.hostname.rstrip(".") if parts.hostname else None


def is_loopback(name: str) -> bool:
    """Whether a name or address is a loopback address of this machine."""
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
