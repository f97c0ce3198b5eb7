"""Network interfaces as the kernel counts them: bytes, errors, carrier, speed.

They belong to the network namespace that the process is in. Sources: Linux' networking/statistics
and ABI/testing/sysfs-class-net.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from trace_hooks.telemetry.job_processes import is_in_initial_namespace
from trace_hooks.telemetry.reading import OpenFile, Reading, Source

_RARELY = 10
_COLUMNS = (
    (0, "net_received_bytes_total"),
    (2, "net_receive_errors_total"),
    (3, "net_receive_drops_total"),
    (8, "net_transmitted_bytes_total"),
    (10, "net_transmit_errors_total"),
    (11, "net_transmit_drops_total"),
)


def scope_of_network(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> str:
    """'host' where the interfaces are the host's: outside of a container, or with a real card."""
    if is_in_initial_namespace(proc):
        return "host"
    has_card = any((folder / "device").exists() for folder in (sys / "class/net").glob("*"))
    return "host" if has_card else "container"


class Network(Source):
    """/proc/self/net/dev, and /sys/class/net for what it lacks."""

    name = "network"

    def __init__(
        self, proc: Path = Path("/proc"), sys: Path = Path("/sys"), scope: str = "container"
    ) -> None:
        self.scope = scope
        self._file, self._links = OpenFile(proc / "self/net/dev"), sys / "class/net"
        self._round = -1

    def read(self) -> Iterator[Reading]:
        """Counters of each interface that has carried anything; its link each tenth time."""
        self._round += 1
        for line in self._file.read().split(b"\n")[2:]:
            name, colon, rest = line.partition(b":")
            fields = rest.split()
            if not colon or fields[1] == fields[9] == b"0":
                continue
            interface = name.strip().decode()
            device = f"net:{interface}"
            for column, metric in _COLUMNS:
                yield Reading(device, metric, int(fields[column]))
            if self._round % _RARELY == 0:
                yield from self._link(device, self._links / interface)

    @staticmethod
    def _link(device: str, folder: Path) -> Iterator[Reading]:
        """Carrier and speed; an interface without a speed, such as a virtual one, has none."""
        with suppress(OSError, ValueError):
            changes = int((folder / "carrier_changes").read_bytes())
            yield Reading(device, "net_carrier_changes_total", changes)
            yield Reading(device, "net_up", int((folder / "carrier").read_bytes()))
            speed_mbit = int((folder / "speed").read_bytes())
            if speed_mbit > 0:
                yield Reading(device, "net_speed_bits_per_second", speed_mbit * 1e6)
