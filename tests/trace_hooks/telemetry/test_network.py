"""Network interfaces, of a made tree and of this machine."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.trace_hooks.telemetry.made_trees import tree, values
from trace_hooks.telemetry.network import Network, scope_of_network

DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 100 2    0    0    0     0          0         0 100 2    0    0    0     0       0          0
  ifb0:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth0: 669638368   14781    3    4    0     0          0         0   825924    9274    5    6    0     0       0          0
"""  # noqa: E501


def made(root: Path) -> Path:
    link = {"carrier": "1\n", "carrier_changes": "2\n", "speed": "100000\n"}
    files = {f"sys/class/net/eth0/{name}": text for name, text in link.items()}
    return tree(root, {"proc/self/net/dev": DEV, **files, "sys/class/net/lo/carrier": "1\n"})


def test_interfaces_that_carried_something(tmp_path: Path) -> None:
    root = made(tmp_path)
    source = Network(root / "proc", root / "sys")
    found = values(source.read())
    assert {device for device, _ in found} == {"net:lo", "net:eth0"}
    assert {m: v for (d, m), v in found.items() if d == "net:eth0"} == {
        "net_received_bytes_total": 669638368,
        "net_receive_errors_total": 3,
        "net_receive_drops_total": 4,
        "net_transmitted_bytes_total": 825924,
        "net_transmit_errors_total": 5,
        "net_transmit_drops_total": 6,
        "net_carrier_changes_total": 2,
        "net_up": 1,
        "net_speed_bits_per_second": 1e11,
    }
    assert ("net:eth0", "net_up") not in values(source.read())  # the link each tenth time


def test_a_real_card_shows_that_the_interfaces_are_the_hosts(tmp_path: Path) -> None:
    root = made(tmp_path)
    assert scope_of_network(root / "proc", root / "sys") == "container"
    (root / "sys/class/net/eth0/device").mkdir()
    assert scope_of_network(root / "proc", root / "sys") == "host"


def test_bytes_over_the_loopback_of_this_machine_are_counted() -> None:
    source = Network()
    before = values(source.read())["net:lo", "net_transmitted_bytes_total"]
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sender,
        server.accept()[0] as receiver,
    ):
        sender.sendall(bytes(200_000))
        receiver.recv(200_000, socket.MSG_WAITALL)
    after = values(source.read())["net:lo", "net_transmitted_bytes_total"]
    assert after - before >= 200_000
