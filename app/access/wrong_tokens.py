"""How often a client may send a wrong token. A valid token is never counted or refused."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

from starlette.requests import HTTPConnection

from app.settings import Settings
from trace_hooks.protocol.token_bucket import Rate

MOST_AT_ONCE = 10
PER_MINUTE = 10
_MOST_CLIENTS = 4_096
"""At most this many clients are remembered; the least recent one is forgotten first."""


class WrongTokens:
    """Wrong tokens by client; behind a declared proxy, by the address that the proxy names."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rates: OrderedDict[str, Rate] = OrderedDict()

    def count(self, request: HTTPConnection) -> bool:
        """Count a wrong token; False if this client has sent too many recently."""
        client = _client(request, self._settings)
        rate = self._rates.pop(client, None) or Rate(PER_MINUTE / 60, MOST_AT_ONCE)
        self._rates[client] = rate
        while len(self._rates) > _MOST_CLIENTS:
            self._rates.popitem(last=False)
        return rate.take()

    def are_too_many(self, request: HTTPConnection) -> bool:
        """Whether the next wrong token of this client would exceed the limit."""
        rate = self._rates.get(_client(request, self._settings))
        return rate is not None and rate.wait_s() > 0


def _client(request: HTTPConnection, settings: Settings) -> str:
    """The client to count for: an address, or the /64 network of an IPv6 customer."""
    text = client_address(request, settings)
    address = _parsed(text)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(address), 64), strict=False))
    return text[:45] if address is None else str(address)


def client_address(request: HTTPConnection, settings: Settings) -> str:
    """The client's address; behind declared proxies, the last other one in X-Forwarded-For."""
    address = request.client.host if request.client else ""
    named = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while named and _is_proxy(address, settings):
        address = named.pop().strip() or address
    return address


def _is_proxy(text: str, settings: Settings) -> bool:
    address = _parsed(text)
    return address is not None and any(address in net for net in settings.proxy_networks)


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, without brackets and port; None if it is not an IP address."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
