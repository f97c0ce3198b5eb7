"""What each fault does to its machine, and to the others, which wait for it.

A change is the level that a metric takes, relative to the levels of a machine at work and at rest:
("idle", s) goes the share s of the way to rest, ("times", x) multiplies, ("to", v) is an absolute
level, ("gone", s) loses the share s of the samples. The dose scales all of them. Crashes stop the
job: the others go on waiting on their GPUs, which read busy at little power.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sample_traces.generate.machines.noise import Floats
from sample_traces.generate.machines.worlds import GPU, METRICS, NET

Change = tuple[str, float]
ALL = tuple(metric.name for metric in METRICS)


@dataclass(frozen=True)
class Effect:
    """Changes by metric: of the machine; of all others after `spreads_s` seconds."""

    own: dict[str, Change] = field(default_factory=dict)
    others: dict[str, Change] = field(default_factory=dict)
    spreads_s: float = 0.0


_WAITING: dict[str, Change] = {
    "gpu_tensor_active_ratio": ("idle", 0.94),
    "gpu_power_watts": ("idle", 0.6),
    "gpu_nvlink_transmitted_bytes_total": ("idle", 0.94),
    "gpu_temperature_celsius": ("idle", 0.4),
    "net_receive_pause_frames_total": ("idle", 0.94),
} | dict.fromkeys(NET, ("idle", 0.94))
_SLOWED: dict[str, Change] = {
    "gpu_tensor_active_ratio": ("idle", 0.5),
    "gpu_power_watts": ("idle", 0.26),
    "gpu_nvlink_transmitted_bytes_total": ("idle", 0.5),
} | dict.fromkeys(NET, ("idle", 0.5))
_DEAD: dict[str, Change] = (
    _WAITING
    | dict.fromkeys(("gpu_utilization_percent", "gpu_power_watts"), ("idle", 0.97))
    | {
        "cpu_busy_seconds_total": ("idle", 0.9),
        "memory_available_bytes": ("idle", 0.7),
        "pressure_cpu_some_seconds_total": ("idle", 0.9),
        "gpu_temperature_celsius": ("idle", 0.8),
    }
)

EFFECTS: dict[str, Effect] = {
    "ecc": Effect(_DEAD | {"gpu_ecc_uncorrected_total": ("to", 0.4)}, _WAITING, 3.0),
    "cuda_execution": Effect(_DEAD, _WAITING, 2.0),
    "gpu_execution": Effect(
        _WAITING
        | {"gpu_utilization_percent": ("idle", 0.8), "gpu_power_watts": ("idle", 0.9)},
        _WAITING,
        2.0,
    ),
    "pcie": Effect(
        {
            "net_receive_pause_frames_total": ("times", 58.0),
            "gpu_pcie_replays_total": ("to", 8.0),
            "cpu_busy_seconds_total": ("times", 1.17),
        }
        | dict.fromkeys(NET, ("idle", 0.6)),
        _SLOWED,
        25.0,
    ),
    "unreachable": Effect(dict.fromkeys(ALL, ("gone", 1.0)), _WAITING, 5.0),
    "nic_dropout": Effect(
        {"tcp_retransmitted_segments_total": ("to", 58.0), "cpu_busy_seconds_total": ("idle", 0.3)}
        | dict.fromkeys(NET, ("idle", 1.0)),
        _SLOWED,
        4.0,
    ),
    "storage": Effect(
        {
            "cpu_iowait_seconds_total": ("to", 26.0),
            "pressure_io_some_seconds_total": ("to", 0.5),
            "cpu_busy_seconds_total": ("idle", 0.4),
        },
        {},
    ),
    "gpu_drop": Effect(
        dict.fromkeys(GPU, ("gone", 1.0)) | {"cpu_busy_seconds_total": ("idle", 0.6)}, _WAITING, 3.0
    ),
    "nvlink": Effect(
        {"gpu_nvlink_transmitted_bytes_total": ("idle", 0.75),
         "gpu_tensor_active_ratio": ("idle", 0.35),
         "gpu_power_watts": ("idle", 0.3)},
        {"gpu_tensor_active_ratio": ("idle", 0.2)},
        2.0,
    ),
    "optical_cable": Effect(
        {"tcp_retransmitted_segments_total": ("to", 40.0),
         "net_receive_pause_frames_total": ("times", 16.0)}
        | dict.fromkeys(NET, ("idle", 0.4)),
        _SLOWED,
        6.0,
    ),
    "thermal": Effect(
        {
            "gpu_sm_clock_mhz": ("times", 0.6),
            "gpu_temperature_celsius": ("times", 1.4),
            "gpu_power_watts": ("idle", 0.35),
            "gpu_tensor_active_ratio": ("idle", 0.26),
        },
        {"gpu_tensor_active_ratio": ("idle", 0.16)},
        2.0,
    ),
    "cpu_contention": Effect(
        {"cpu_busy_seconds_total": ("to", 122.0), "pressure_cpu_some_seconds_total": ("to", 0.5),
         "gpu_utilization_percent": ("idle", 0.16)},
        {},
    ),
    "memory_pressure": Effect(
        {"memory_available_bytes": ("times", 0.05), "pressure_io_some_seconds_total": ("to", 0.2),
         "cpu_iowait_seconds_total": ("to", 9.0)},
        {},
    ),
}  # fmt: skip
"""By kind of worlds.MIX."""


def changed(level_TN: Floats, change: Change, idle: float, dose: float) -> Floats:
    """The levels that a change makes of these, at this dose."""
    how, much = change
    if how == "idle":
        return level_TN + dose * much * (idle - level_TN)
    if how == "times":
        return level_TN * (1 + dose * (much - 1)) if much >= 1 else level_TN * much**dose
    if how == "to":
        return level_TN + dose * (much - level_TN)
    return level_TN
