"""Hosts x metrics, and hosts x ports: values, and which host is far from the others."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from app.views.machines.host_map import HostMap, codes, host_map, port_map, title_of, unit_of
from app.views.ranks.scales import IN_NOISE, NO_DATA
from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder

S = 10**9


@pytest.fixture
def builder(tmp_path: Path) -> RunBuilder:
    """Six hosts with two GPUs and a port each; GPU b of h4 is slow, the port of h5 half as busy."""
    made = RunBuilder(tmp_path / "run", 6, hosts=[f"h{i}" for i in range(6)])
    for host in range(6):
        for second in range(4):
            at = {"host": f"h{host}", "ts_ns": T0 + second * S, "state": "value", "scope": "host"}
            for gpu in "ab":
                clock = 1110 if (host, gpu) == (4, "b") else 1980
                made.add("host_metrics", -1, second, device=f"gpu:{host}{gpu}", value=clock,
                         metric="gpu_sm_clock_mhz", **at)  # fmt: skip
            sent = second * (50 if host == 5 else 100)
            made.add("host_metrics", -1, second, device="nic:mlx5_0/1", value=sent,
                     metric="nic_transmitted_bytes_total", **at)  # fmt: skip
            made.add("host_metrics", -1, second, device="host", value=0.0,
                     metric="oom_kills_total", **at)  # fmt: skip
    made.rank_files()
    made.publish()
    return made


def cells(found: HostMap) -> dict[tuple[str, str], tuple[int, int]]:
    """(code, which) of the coloured cells by host and column."""
    arrays = found.arrays()
    names = [(host, column.name) for host in found.hosts for column in found.columns]
    pairs = zip(arrays["code"].tolist(), arrays["which"].tolist(), strict=True)
    return {name: pair for name, pair in zip(names, pairs, strict=True) if pair[0] > IN_NOISE}


def test_a_slow_gpu_of_a_host_is_seen_though_the_mean_hides_it(builder: RunBuilder) -> None:
    with open_run(builder.folder) as run:
        found = host_map(run, 0)
    assert [column.name for column in found.columns] == [
        "nic_transmitted_bytes_total",
        "gpu_sm_clock_mhz",
    ]  # what is zero everywhere is left out
    coloured = cells(found)
    assert set(coloured) == {("h4", "gpu_sm_clock_mhz"), ("h5", "nic_transmitted_bytes_total")}
    code, which = coloured["h4", "gpu_sm_clock_mhz"]
    assert code % 2 == 0  # less than the others
    assert which == 1  # the least of its devices
    assert found.meta()["compares"]


def test_ports(builder: RunBuilder) -> None:
    with open_run(builder.folder) as run:
        found = port_map(run, 0, "nic_transmitted_bytes_total")
    assert [column.title for column in found.columns] == ["mlx5_0/1"]
    assert found.floats_3HC[0, :, 0].tolist() == [100, 100, 100, 100, 100, 50]
    assert set(cells(found)) == {("h5", "nic:mlx5_0/1")}


def test_steps_without_samples_have_no_hosts(builder: RunBuilder) -> None:
    with open_run(builder.folder) as run:
        assert host_map(run, 0, (100, 200)).hosts == ()


def test_few_hosts_have_no_colour() -> None:
    assert codes(np.array([[1.0], [100.0], [1.0]])).tolist() == [[1], [1], [1]]


def test_of_many_hosts_a_small_difference_is_seen_and_chance_is_not() -> None:
    value_HC = 100 + np.random.default_rng(1).standard_normal((1536, 20))
    assert (codes(value_HC) == IN_NOISE).all()
    value_HC[77, 3] -= 8
    assert np.argwhere(codes(value_HC) != IN_NOISE).tolist() == [[77, 3]]


def test_what_is_not_recorded_has_no_colour() -> None:
    value_HC = np.array([[1.0, math.nan], [1.0, math.nan], [math.nan, math.nan], [9.0, math.nan]])
    code_HC = codes(value_HC)
    assert code_HC[:, 1].tolist() == [NO_DATA] * 4
    assert code_HC[2, 0] == NO_DATA
    assert code_HC[3, 0] > IN_NOISE


def test_equal_hosts_are_grey_and_one_above_zero_is_not() -> None:
    assert codes(np.zeros((5, 1))).tolist() == [[IN_NOISE]] * 5
    assert codes(np.array([[0.0]] * 4 + [[1.0]]))[4, 0] == 255


@pytest.mark.parametrize(
    ("metric", "title", "unit"),
    [
        ("gpu_sm_clock_mhz", "GPU SM clock", "MHz"),
        ("cpu_busy_seconds_total", "CPU busy", "cores"),
        ("pressure_cpu_some_seconds_total", "pressure CPU some", "of the time"),
        ("nic_transmitted_bytes_total", "NIC transmitted", "B/s"),
        ("something_else", "something else", ""),
    ],
)
def test_titles_and_units(metric: str, title: str, unit: str) -> None:
    assert (title_of(metric), unit_of(metric)) == (title, unit)


def test_hosts_and_ports_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["node0", "node1", "node2", "node10"]
    builder = RunBuilder(tmp_path / "run", 4, hosts=names)
    for host in names:
        for port in ("nic:mlx5_10/1", "nic:mlx5_2/1"):
            for second in range(2):
                builder.add("host_metrics", -1, second, host=host, ts_ns=T0 + second * S,
                            state="value", scope="host", device=port, value=second * 100,
                            metric="nic_transmitted_bytes_total")  # fmt: skip
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        assert host_map(run, 0).hosts == tuple(names)
        ports = port_map(run, 0, "nic_transmitted_bytes_total")
    assert [column.title for column in ports.columns] == ["mlx5_2/1", "mlx5_10/1"]
