"""The list of metrics keeps its own promises."""

from __future__ import annotations

import re

from trace_hooks.telemetry.names import METRICS, SOURCES, readable_name

UNITS = {
    "bytes": "B",
    "seconds": "s",
    "percent": "%",
    "celsius": "C",
    "watts": "W",
    "joules": "J",
    "mhz": "MHz",
}


def test_names_carry_the_unit() -> None:
    for name, metric in METRICS.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]+", name)
        last = name.removesuffix("_total").rpartition("_")[2]
        if last in UNITS:
            assert metric.unit == UNITS[last], name
        assert metric.doc
        assert metric.name == name


def test_a_counter_is_named_so() -> None:
    assert METRICS["gpu_energy_joules_total"].is_counter
    assert not METRICS["gpu_power_watts"].is_counter


def test_every_source_has_its_metric() -> None:
    assert {readable_name(source) for source in SOURCES} <= METRICS.keys()
