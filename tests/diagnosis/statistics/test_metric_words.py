"""Metrics of machines in sentences: their names and their values."""

from __future__ import annotations

import pytest

from diagnosis.statistics.metric_words import metric_words, value_text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpu_sm_clock_mhz (least)", "GPU SM clock"),
        ("gpu_power_watts", "GPU power"),
        ("gpu_pcie_replays_total", "GPU PCIe replays"),
        ("pressure_cpu_some_seconds_total", "pressure CPU some"),
        ("gpu_temperature_celsius", "GPU temperature"),
    ],
)
def test_words_without_units(name: str, words: str) -> None:
    assert metric_words(name) == words


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("gpu_sm_clock_mhz", 1_110.0, "1,110 MHz"),
        ("gpu_utilization_percent", 96.4, "96.4 %"),
        ("gpu_tensor_active_ratio", 0.42, "42 %"),
        ("net_received_bytes_total", 1.8e10, "18 GB/s"),
        ("cpu_steal_seconds_total", 0.5, "0.5 s/s"),
        ("oom_kills_total", 2.0, "2/s"),
        ("gpu_power_watts", 610.0, "610 W"),
    ],
)
def test_values_with_units(name: str, value: float, text: str) -> None:
    assert value_text(name, value) == text
