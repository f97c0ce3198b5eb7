"""Address of the dashboard's server and the token for it: TRACE_HOOKS_SERVER, TRACE_HOOKS_TOKEN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

SERVER, TOKEN = "TRACE_HOOKS_SERVER", "TRACE_HOOKS_TOKEN"
PATH = "/agent"
_PORTS = {"ws": 80, "wss": 443}


@dataclass(frozen=True)
class Address:
    """A server and the job token; raises ValueError naming the variable and the remedy."""

    server: str  # ws://host:port[/prefix] or wss://...
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.server)
            whole = parts.scheme in _PORTS and parts.hostname and parts.port != 0
        except ValueError:  # a port that is not a number
            whole = False
        if not whole or parts.query or parts.fragment or parts.username is not None:
            raise ValueError(
                f"{SERVER} is {self.server!r}; give the address of the dashboard, such as "
                "ws://login-node:8050"
            )
        if not self.token or not self.token.isprintable() or not self.token.isascii():
            raise ValueError(
                f"{SERVER} is set, so {TOKEN} must hold the job token that the server was started "
                "with (rankscope serve --job-token) or has printed"
            )

    @property
    def url(self) -> str:
        """URL of the socket for ranks."""
        return self.server.rstrip("/") + PATH

    @property
    def host_and_port(self) -> tuple[str, int]:
        """Host and port to connect to."""
        parts = urlsplit(self.server)
        return parts.hostname or "", parts.port or _PORTS[parts.scheme]


def read_address(environ: Mapping[str, str]) -> Address | None:
    """Address from the environment, None where no server is named; raises ValueError."""
    server = environ.get(SERVER, "").strip()
    return Address(server, environ.get(TOKEN, "").strip()) if server else None
