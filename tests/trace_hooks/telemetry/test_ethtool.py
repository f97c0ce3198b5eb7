"""Counters of a driver, from a fake kernel that answers like mlx5's, and from this machine's."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest

from tests.trace_hooks.telemetry.made_trees import tree, values
from trace_hooks.telemetry.ethtool import Ethtool, ask_kernel
from trace_hooks.telemetry.reading import SourceError

COUNTERS = {
    "rx_packets": 1,
    "rx_prio0_pause": 10,
    "rx_prio3_pause": 5,
    "rx_prio3_pause_duration": 2_000_000,
    "tx_prio3_pause": 7,
    "tx_prio3_pause_transition": 99,
    "link_down_events_phy": 2,
    "rx_crc_errors_phy": 3,
    "tx_pci_signal_integrity": 1,
}


class Kernel:
    """Answers the three requests for `eth0`; fails loudly on any other."""

    def __init__(self, counters: dict[str, int]) -> None:
        self.counters = counters

    def __call__(self, interface: str, request: bytearray) -> None:
        assert interface == "eth0"
        command = struct.unpack_from("I", request)[0]
        if command == 0x37:
            assert struct.unpack_from("QI", request, 8) == (2, 0)
            struct.pack_into("I", request, 16, len(self.counters))
        elif command == 0x1B:
            assert struct.unpack_from("II", request, 4) == (1, len(self.counters))
            for place, name in enumerate(self.counters):
                struct.pack_into("32s", request, 12 + 32 * place, name.encode())
        elif command == 0x1D:
            assert struct.unpack_from("I", request, 4) == (len(self.counters),)
            struct.pack_into(f"{len(self.counters)}Q", request, 8, *self.counters.values())
        else:
            raise AssertionError(hex(command))


def test_pauses_of_all_priorities_are_summed(tmp_path: Path) -> None:
    sys = tree(tmp_path, {"class/net/eth0/device/vendor": "", "class/net/lo/mtu": ""})
    assert values(Ethtool(sys, ask=Kernel(COUNTERS)).read()) == {
        ("net:eth0", "net_receive_pause_frames_total"): 15,
        ("net:eth0", "net_transmit_pause_frames_total"): 7,
        ("net:eth0", "net_receive_pause_seconds_total"): 2.0,
        ("net:eth0", "net_link_down_events_total"): 2,
        ("net:eth0", "net_crc_errors_total"): 3,
        ("net:eth0", "net_pcie_integrity_errors_total"): 1,
    }


def test_a_driver_without_such_counters_is_said_so(tmp_path: Path) -> None:
    sys = tree(tmp_path, {"class/net/eth0/device/vendor": ""})
    with pytest.raises(SourceError, match="no driver that counts pauses"):
        Ethtool(sys, ask=Kernel({"rx_packets": 1}))


def test_the_kernel_refuses_an_interface_that_is_not_there() -> None:
    request = bytearray(struct.pack("IIQI", 0x37, 0, 1 << 1, 0))
    with pytest.raises(OSError, match="No such device"):
        ask_kernel("nothere0", request)


def test_the_loopback_of_this_machine_has_no_counters() -> None:
    request = bytearray(struct.pack("IIQI", 0x37, 0, 1 << 1, 0))
    with suppress(OSError):  # a kernel may also say that loopback has no such sets
        ask_kernel("lo", request)
    assert struct.unpack_from("I", request, 16)[0] == 0
