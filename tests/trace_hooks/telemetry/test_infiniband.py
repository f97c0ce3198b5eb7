"""Ports of InfiniBand cards, in a made tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace_hooks.telemetry.made_trees import reasons, tree, values
from trace_hooks.telemetry.infiniband import Infiniband
from trace_hooks.telemetry.reading import SourceError

PORT = "class/infiniband/mlx5_0/ports/1"
FILES = {
    f"{PORT}/counters/port_xmit_data": "1000\n",
    f"{PORT}/counters/port_rcv_data": "250\n",
    f"{PORT}/counters/port_xmit_wait": "7\n",
    f"{PORT}/counters/link_downed": "1\n",
    f"{PORT}/hw_counters/np_cnp_sent": "3\n",
    f"{PORT}/hw_counters/out_of_buffer": "4\n",
    f"{PORT}/hw_counters/lifespan": "10\n",
    f"{PORT}/rate": "400 Gb/sec (4X NDR)\n",
    f"{PORT}/state": "4: ACTIVE\n",
}


def test_words_become_bytes_and_the_link_has_rate_and_state(tmp_path: Path) -> None:
    source = Infiniband(tree(tmp_path, FILES))
    assert {metric: value for (_, metric), value in values(source.read()).items()} == {
        "nic_transmitted_bytes_total": 4000,
        "nic_received_bytes_total": 1000,
        "nic_transmit_wait_ticks_total": 7,
        "nic_link_downed_total": 1,
        "nic_congestion_notices_sent_total": 3,
        "nic_out_of_buffer_total": 4,
        "nic_active": 1,
        "nic_rate_bits_per_second": 4e11,
    }
    assert {device for device, _ in values(source.read())} == {"nic:mlx5_0/1"}


def test_each_second_only_what_detectors_need(tmp_path: Path) -> None:
    source = Infiniband(tree(tmp_path, FILES))
    list(source.read())
    assert {metric for _, metric in values(source.read())} == {
        "nic_transmitted_bytes_total",
        "nic_received_bytes_total",
        "nic_transmit_wait_ticks_total",
        "nic_congestion_notices_sent_total",
    }


def test_a_counter_that_cannot_be_read_spoils_no_other(tmp_path: Path) -> None:
    source = Infiniband(tree(tmp_path, {**FILES, f"{PORT}/counters/port_xmit_wait": "N/A\n"}))
    (where,) = reasons(source)
    assert where == ("nic:mlx5_0/1", "nic_transmit_wait_ticks_total")


def test_a_driver_without_counters(tmp_path: Path) -> None:
    files = {name: text for name, text in FILES.items() if "counters/" not in name}
    found = values(Infiniband(tree(tmp_path, files)).read())
    assert {metric for _, metric in found} == {"nic_active", "nic_rate_bits_per_second"}


def test_no_card(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not there: no port"):
        Infiniband(tmp_path)
