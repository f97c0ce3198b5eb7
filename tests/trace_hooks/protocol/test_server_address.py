"""The address of the server and its token, from the environment."""

from __future__ import annotations

import pytest

from trace_hooks.protocol.server_address import Address, read_address


def test_the_address_comes_from_the_environment() -> None:
    assert read_address({}) is None
    environ = {"TRACE_HOOKS_SERVER": "ws://login:8050/hub/", "TRACE_HOOKS_TOKEN": "secret-secret"}
    address = read_address(environ)
    assert address is not None
    assert (address.url, address.host_and_port) == ("ws://login:8050/hub/agent", ("login", 8050))
    assert "secret-secret" not in repr(address)
    assert Address("wss://[::1]", "t").host_and_port == ("::1", 443)


@pytest.mark.parametrize(
    "server",
    [
        "login:8050",
        "http://login",
        "ws://",
        "ws://login:x",
        "ws://a?b=c",
        "ws://u:p@login",
        "ws:/x",
    ],
)
def test_an_invalid_address_is_refused(server: str) -> None:
    with pytest.raises(ValueError, match=r"TRACE_HOOKS_SERVER is .*; give the address"):
        Address(server, "secret-secret")


@pytest.mark.parametrize("token", ["", "two\nlines", "ü" * 9])
def test_a_server_without_a_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="TRACE_HOOKS_TOKEN must hold the job token"):
        Address("ws://login", token)
