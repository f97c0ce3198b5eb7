"""What generated jobs are like, as ranges: levels of metrics, noise, decoys, and the mix of faults.

Pairs are the least and the most of an even draw.
"""

from __future__ import annotations

from dataclasses import dataclass

Range = tuple[float, float]


@dataclass(frozen=True)
class Metric:
    """A metric by the sampler's name. `idle`, `busy`: its level while the job rests and trains;
    counters as increase per second. `noise`: of its busy level, as a range; `lag_s`: how long it
    takes to follow; `events`: it counts rare events, so its noise is that of counts.
    """

    name: str
    idle: float
    busy: float
    noise: Range = (0.005, 0.04)
    lag_s: float = 0.0
    events: bool = False
    most: float = float("inf")


CORES = 128.0

METRICS = (
    Metric("cpu_busy_seconds_total", 5.0, 45.0, (0.02, 0.07), most=CORES),
    Metric("cpu_iowait_seconds_total", 0.26, 0.77, (0.1, 0.4), most=CORES),
    Metric("memory_available_bytes", 1.5e12, 9e11, (0.001, 0.006), 22.0),
    Metric("pressure_io_some_seconds_total", 3e-4, 1.5e-3, (0.2, 0.6), most=1.0),
    Metric("pressure_cpu_some_seconds_total", 9e-4, 0.018, (0.1, 0.4), most=1.0),
    Metric("tcp_retransmitted_segments_total", 0.05, 0.8, events=True),
    Metric("net_received_bytes_total", 1e6, 1.8e10, (0.02, 0.08)),
    Metric("net_transmitted_bytes_total", 1e6, 1.8e10, (0.02, 0.08)),
    Metric("net_receive_pause_frames_total", 5.0, 2_300.0, (0.1, 0.5)),
    Metric("gpu_utilization_percent", 2.0, 96.0, (0.005, 0.03), most=100.0),
    Metric("gpu_sm_clock_mhz", 1_700.0, 1_900.0, (0.002, 0.015)),
    Metric("gpu_power_watts", 110.0, 610.0, (0.01, 0.04)),
    Metric("gpu_temperature_celsius", 36.0, 63.0, (0.004, 0.015), 45.0),
    Metric("gpu_tensor_active_ratio", 0.0, 0.42, (0.01, 0.05), most=1.0),
    Metric("gpu_nvlink_transmitted_bytes_total", 0.0, 1.6e11, (0.01, 0.05)),
    Metric("gpu_pcie_replays_total", 0.0005, 0.001, events=True),
    Metric("gpu_ecc_uncorrected_total", 0.0, 0.0, events=True),
)

GPU = tuple(m.name for m in METRICS if m.name.startswith("gpu"))
NET = ("net_received_bytes_total", "net_transmitted_bytes_total")

WRITING = {"cpu_iowait_seconds_total": 13.0, "pressure_io_some_seconds_total": 0.16}
"""What a checkpoint adds on the machines that write it."""

MIX = {
    "ecc": 38.9,
    "cuda_execution": 14.6,
    "gpu_execution": 7.7,
    "pcie": 6.6,
    "unreachable": 6.0,
    "nic_dropout": 5.7,
    "storage": 5.7,
    "gpu_drop": 2.0,
    "nvlink": 1.7,
    "optical_cable": 0.9,
    "thermal": 3.6,
    "cpu_contention": 3.3,
    "memory_pressure": 3.3,
}
"""Shares of faults: Minder's Table 1 (2411.01791); its "others" stand here as the last three."""

DOSES = {"loud": 1.0, "quiet": 0.5, "masked": 0.2}
"""How much of the full change there is."""

SIZES = (4, 4, 6, 8, 8, 10, 16, 16, 28, 36, 48, 64)
LARGE_SIZES = (128, 256, 512, 1_536)
LARGE = 0.03
"""Share of cases of the large sizes."""


@dataclass(frozen=True)
class Ranges:
    """What a job is drawn from. Shares are probabilities of a job."""

    recorded: Range = (0.6, 1.0)
    """Of the metrics."""
    roles: float = 0.4
    role_gain: Range = (0.76, 1.24)
    machine_gain: Range = (-0.02, 0.02)
    step_s: Range = (2.0, 25.0)
    step_depth: Range = (0.0, 0.5)
    wander: Range = (0.0, 0.4)
    """Slow movement of each machine by itself, of its noise; what was recorded has .1."""
    wander_s: Range = (70.0, 300.0)
    common_noise: Range = (0.005, 0.05)
    checkpoint: float = 0.75
    checkpoint_every_s: Range = (180.0, 580.0)
    checkpoint_s: Range = (8.0, 88.0)
    writers: float = 0.4
    writer_share: Range = (0.05, 0.5)
    evaluation: float = 0.35
    evaluation_s: Range = (40.0, 240.0)
    restart: float = 0.12
    restart_s: Range = (40.0, 150.0)
    enters_late_s: Range = (0.0, 8.0)
    odd: float = 0.5
    odd_gain: Range = (0.05, 0.24)
    odd_metrics: Range = (1.0, 4.0)
    jitter_per_hour: Range = (0.0, 0.4)
    """Of a machine: of 32 machines about one stumbles every nine minutes."""
    jitter_s: Range = (5.0, 60.0)
    jitter_depth: Range = (0.2, 0.96)
    jitter_metrics: Range = (1.0, 4.0)
    lost: Range = (0.0, 0.05)
    begins_s: Range = (180.0, 590.0)
    ramp_s: Range = (0.0, 11.0)
    strength: Range = (0.8, 1.2)
