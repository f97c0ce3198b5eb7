"""Metrics of one host over time: a line for each device, and for the process of each rank."""

from __future__ import annotations

import math
from typing import Any

from app.views.machines.changes import OfDevices, ranks_of_devices, short_device
from app.views.machines.host_map import title_of, unit_of
from diagnosis.statistics.natural_order import natural
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.telemetry.names import METRICS

MOST_BINS = 120
_LEAST_BIN_NS = 1_000_000_000

SHOWN = (
    "gpu_sm_clock_mhz",
    "gpu_power_watts",
    "gpu_utilization_percent",
    "gpu_temperature_celsius",
    "process_cpu_seconds_total",
    "process_wait_seconds_total",
    "process_resident_bytes",
    "nic_transmitted_bytes_total",
    "nic_transmit_wait_ticks_total",
    "net_transmitted_bytes_total",
    "net_transmit_pause_frames_total",
    "cpu_busy_seconds_total",
    "cpu_iowait_seconds_total",
    "memory_available_bytes",
    "pressure_cpu_some_seconds_total",
    "pressure_io_full_seconds_total",
    "pressure_memory_full_seconds_total",
    "tcp_retransmitted_segments_total",
    "cgroup_cpu_throttled_seconds_total",
    "cgroup_memory_used_bytes",
    "disk_written_bytes_total",
    "disk_busy_seconds_total",
)
"""Metrics with a line, in order."""


def host_series(
    run: Run,
    attempt: int,
    host: str,
    window_ns: tuple[int, int] | None = None,
    stop: Stop | None = None,
) -> dict[str, Any]:
    """Lines of a host; times are seconds since the run's t0. A line without a change is left out
    where it is zero.
    """
    t0_ns = run.info["created_ns"]
    begin_ns, end_ns = window_ns or _extent(run, attempt, host, stop)
    bin_ns = max((end_ns - begin_ns) // MOST_BINS, _LEAST_BIN_NS)
    rows = run.ask(
        "host_metric_series",
        attempt=attempt,
        host=host,
        metric=",".join(SHOWN),
        bin_ns=bin_ns,
        begin_ns=begin_ns,
        end_ns=end_ns,
        stop=stop,
    ).to_pylist()
    ranks = ranks_of_devices(run, attempt)
    lines: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in rows:
        key = row["device"], row["metric"], row["rank"]
        line = lines.get(key)
        if line is None:
            device, metric, rank = key
            line = lines[key] = {
                "device": device,
                "metric": metric,
                "title": title_of(metric),
                "unit": unit_of(metric),
                "doc": METRICS[metric].doc,
                "who": f"rank {rank}" if rank >= 0 else short_device(device) or "host",
                "ranks": [rank] if rank >= 0 else _ranks_of_gpu(ranks, host, device),
                "at_s": [],
                "value": [],
                "num_resets": 0,
            }
        line["at_s"].append((row["bin_ns"] - t0_ns) / 1e9)
        line["value"].append(_plain(row["value"]))
        line["num_resets"] += row["num_resets"]
    order = {metric: number for number, metric in enumerate(SHOWN)}
    nonzero = [line for line in lines.values() if any(line["value"])]
    nonzero.sort(key=lambda line: (order[line["metric"]], natural(line["device"]), line["ranks"]))
    return {"host": host, "bin_s": bin_ns / 1e9, "lines": nonzero}


def _ranks_of_gpu(ranks: OfDevices, host: str, device: str) -> list[int]:
    return ranks.get((host, device), []) if device.startswith("gpu:") else []


def _extent(run: Run, attempt: int, host: str, stop: Stop | None) -> tuple[int, int]:
    """First and last minute with samples of a host; Unix ns."""
    rows = run.ask(
        "host_metric_series",
        attempt=attempt,
        host=host,
        metric=",".join(SHOWN),
        bin_ns=60_000_000_000,
        stop=stop,
    ).column("bin_ns")
    times = rows.to_pylist()
    return (min(times), max(times) + 60_000_000_000) if times else (0, _LEAST_BIN_NS)


def _plain(value: float | None) -> float | None:
    """For JSON, with six digits."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
