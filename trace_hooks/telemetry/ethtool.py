"""What a network card's driver counts, as `ethtool -S` shows it: pauses (PFC), cable, PCIe.

The request ETHTOOL_GSTATS needs no privilege. Sources: Linux' include/uapi/linux/ethtool.h,
NVIDIA's list of mlx5 counters.
"""

from __future__ import annotations

import ctypes
import fcntl
import re
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from trace_hooks.telemetry.reading import Reading, Source, SourceError

_SIOCETHTOOL = 0x8946
_GET_STRINGS, _GET_STATISTICS, _GET_SET_SIZES = 0x1B, 0x1D, 0x37
_STATISTICS = 1  # ETH_SS_STATS
_NAME_BYTES = 32
_MOST_COUNTERS = 20_000

_METRICS = (
    (re.compile(r"rx_prio\d_pause"), "net_receive_pause_frames_total", 1.0),
    (re.compile(r"tx_prio\d_pause"), "net_transmit_pause_frames_total", 1.0),
    (re.compile(r"rx_prio\d_pause_duration"), "net_receive_pause_seconds_total", 1e-6),
    (re.compile(r"tx_prio\d_pause_duration"), "net_transmit_pause_seconds_total", 1e-6),
    (re.compile(r"link_down_events_phy"), "net_link_down_events_total", 1.0),
    (re.compile(r"rx_pcs_symbol_err_phy"), "net_symbol_errors_total", 1.0),
    (re.compile(r"rx_corrected_bits_phy"), "net_corrected_bits_total", 1.0),
    (re.compile(r"rx_crc_errors_phy"), "net_crc_errors_total", 1.0),
    (re.compile(r"rx_discards_phy"), "net_receive_discards_total", 1.0),
    (re.compile(r"[rt]x_pci_signal_integrity"), "net_pcie_integrity_errors_total", 1.0),
)
"""Counters by name, the metric that sums them, and what one of them is in its unit."""

Ask = Callable[[str, bytearray], None]
"""Pass a request to the driver of an interface, which answers in the same bytes; raises OSError."""


def ask_kernel(interface: str, request: bytearray) -> None:
    """The ioctl SIOCETHTOOL; raises OSError."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(request))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode()[:15], address))


class Ethtool(Source):
    """Interfaces whose driver has counters of pauses, cable or PCIe."""

    name = "ethtool"

    def __init__(
        self, sys: Path = Path("/sys"), scope: str = "host", ask: Ask = ask_kernel
    ) -> None:
        self.scope, self._ask = scope, ask
        cards = sorted((sys / "class/net").glob("*/device"))
        self._positions = {
            card.parent.name: positions
            for card in cards
            if (positions := _positions(self._names(card.parent.name)))
        }
        self._sizes = {name: len(self._names(name)) for name in self._positions}
        if not self._positions:
            raise SourceError("not there: no driver that counts pauses or cable errors")

    def _names(self, interface: str) -> list[str]:
        """Names of a driver's counters, in its order; none where it has no counters."""
        with suppress(OSError):
            sizes = bytearray(struct.pack("IIQI", _GET_SET_SIZES, 0, 1 << _STATISTICS, 0))
            self._ask(interface, sizes)
            number = struct.unpack("IIQI", sizes)[3]
            if not 0 < number <= _MOST_COUNTERS:
                return []
            head = struct.pack("III", _GET_STRINGS, _STATISTICS, number)
            request = bytearray(head + bytes(number * _NAME_BYTES))
            self._ask(interface, request)
            data = request[len(head) :]
            texts = (data[at : at + _NAME_BYTES] for at in range(0, len(data), _NAME_BYTES))
            return [text.split(b"\0")[0].decode("ascii", "replace") for text in texts]
        return []

    def read(self) -> Iterator[Reading]:
        """Sums of each kind of counter of each interface."""
        for interface, positions in self._positions.items():
            number = self._sizes[interface]
            head = struct.pack("II", _GET_STATISTICS, number)
            request = bytearray(head + bytes(8 * number))
            self._ask(interface, request)
            values = struct.unpack(f"{number}Q", request[len(head) :])
            for metric, (places, factor) in positions.items():
                total = sum(values[place] for place in places) * factor
                yield Reading(f"net:{interface}", metric, total)


def _positions(names: list[str]) -> dict[str, tuple[list[int], float]]:
    """Where the counters of each metric stand, and their factor."""
    found: dict[str, tuple[list[int], float]] = {}
    for pattern, metric, factor in _METRICS:
        places = [place for place, name in enumerate(names) if pattern.fullmatch(name)]
        if places:
            found[metric] = (places, factor)
    return found
