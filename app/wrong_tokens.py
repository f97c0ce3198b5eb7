"""How often a client may send a wrong token. A valid one is never counted, nor refused."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

from starlette.requests import HTTPConnection

from app.settings import Settings
from trace_hooks.rates import Rate

MOST_AT_ONCE = 10
PER_MINUTE = 10
_MOST_CLIENTS = 4_096
"""Clients remembered; the one that was quiet longest goes first."""


class WrongTokens:
    """Wrong tokens by client: behind a declared proxy the address that it names."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rates: OrderedDict[str, Rate] = OrderedDict()

    def count(self, request: HTTPConnection) -> bool:
        """Note a wrong token; False where this client has sent too many lately."""
        client = _network(client_address(request, self._settings))
        rate = self._rates.pop(client, None) or Rate(PER_MINUTE / 60, MOST_AT_ONCE)
        self._rates[client] = rate
        while len(self._rates) > _MOST_CLIENTS:
            self._rates.popitem(last=False)
        return rate.take()


def client_address(request: HTTPConnection, settings: Settings) -> str:
    """Who connects; where that is a declared proxy, whom it names last in X-Forwarded-For."""
    address = request.client.host if request.client else ""
    named = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while named and _is_proxy(address, settings):
        address = named.pop().strip() or address
    return address


def _is_proxy(address: str, settings: Settings) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None) or parsed
    return any(mapped in network for network in settings.proxy_networks)


def _network(address: str) -> str:
    """An IPv6 customer has a /64 of addresses, and no text here is longer than an address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:45]
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
