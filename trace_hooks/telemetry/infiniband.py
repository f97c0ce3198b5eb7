"""Ports of InfiniBand and RoCE cards: /sys/class/infiniband, counters and hw_counters.

A driver lacks what its card does not count (irdma has no `counters`). hw_counters are read from
the card at most each `lifespan` ms. Sources: Linux' ABI/stable/sysfs-class-infiniband; NVIDIA's
list of mlx5 counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trace_hooks.telemetry.names import METRICS
from trace_hooks.telemetry.reading import NAN, OpenFile, Reading, Source, SourceError, reason_of

_RARELY = 10
_WORD_BYTES = 4
"""port_*_data count words of four bytes."""

_FILES = {
    "counters/port_xmit_data": "nic_transmitted_bytes_total",
    "counters/port_rcv_data": "nic_received_bytes_total",
    "counters/port_xmit_wait": "nic_transmit_wait_ticks_total",
    "counters/port_xmit_discards": "nic_transmit_discards_total",
    "counters/port_rcv_errors": "nic_receive_errors_total",
    "counters/symbol_error": "nic_symbol_errors_total",
    "counters/local_link_integrity_errors": "nic_integrity_errors_total",
    "counters/link_downed": "nic_link_downed_total",
    "counters/link_error_recovery": "nic_link_recoveries_total",
    "hw_counters/np_ecn_marked_roce_packets": "nic_ecn_marked_packets_total",
    "hw_counters/np_cnp_sent": "nic_congestion_notices_sent_total",
    "hw_counters/rp_cnp_handled": "nic_congestion_notices_handled_total",
    "hw_counters/out_of_sequence": "nic_out_of_sequence_total",
    "hw_counters/packet_seq_err": "nic_sequence_errors_total",
    "hw_counters/local_ack_timeout_err": "nic_ack_timeouts_total",
    "hw_counters/implied_nak_seq_err": "nic_implied_nak_total",
    "hw_counters/roce_adp_retrans": "nic_adaptive_retransmits_total",
    "hw_counters/rnr_nak_retry_err": "nic_receiver_not_ready_total",
    "hw_counters/out_of_buffer": "nic_out_of_buffer_total",
}


class _Port:
    """Open files of one port."""

    def __init__(self, folder: Path) -> None:
        self.device = f"nic:{folder.parent.parent.name}/{folder.name}"
        self.files = [
            (metric, OpenFile(folder / file))
            for file, metric in _FILES.items()
            if (folder / file).exists()
        ]
        self.rate, self.state = OpenFile(folder / "rate"), OpenFile(folder / "state")


class Infiniband(Source):
    """Every port of every card."""

    name = "infiniband"

    def __init__(self, sys: Path = Path("/sys")) -> None:
        root = sys / "class/infiniband"
        self._ports = [_Port(folder) for folder in sorted(root.glob("*/ports/*"))]
        if not self._ports:
            raise SourceError(f"not there: no port in {root}")
        self._round = -1

    def read(self) -> Iterator[Reading]:
        """Detectors' counters each second, the others and the link each tenth time."""
        self._round += 1
        is_full = self._round % _RARELY == 0
        for port in self._ports:
            for metric, file in port.files:
                if is_full or METRICS[metric].is_detector_input:
                    yield _counter(port.device, metric, file)
            if is_full:
                yield from _link(port)


def _counter(device: str, metric: str, file: OpenFile) -> Reading:
    try:
        value = file.number()
    except (OSError, ValueError) as error:
        return Reading(device, metric, NAN, reason_of(error))
    return Reading(device, metric, value * (_WORD_BYTES if metric.endswith("bytes_total") else 1))


def _link(port: _Port) -> Iterator[Reading]:
    """Rate, such as `400 Gb/sec (4X NDR)`, and state, such as `4: ACTIVE`."""
    try:
        rate, state = port.rate.read(), port.state.read()
    except OSError as error:
        yield Reading(port.device, "nic_active", NAN, reason_of(error))
        return
    yield Reading(port.device, "nic_active", float(state.startswith(b"4:")))
    yield Reading(port.device, "nic_rate_bits_per_second", float(rate.split()[0]) * 1e9)
