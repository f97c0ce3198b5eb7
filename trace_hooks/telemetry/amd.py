"""AMD GPUs through AMD SMI, where its Python package (`import amdsmi`) is installed.

One call of amdsmi_get_gpu_metrics_info has nearly everything; it answers 'N/A' for what a GPU does
not have. Not run on a GPU so far. Source: amdsmi_interface.py 7.0.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from trace_hooks.telemetry.reading import NAN, Reading, Source, SourceError

_NOT_THERE = "N/A"

_METRICS = (
    ("average_gfx_activity", "gpu_utilization_percent", 1.0),
    ("average_umc_activity", "gpu_memory_utilization_percent", 1.0),
    ("current_gfxclk", "gpu_sm_clock_mhz", 1.0),
    ("current_uclk", "gpu_memory_clock_mhz", 1.0),
    ("current_socket_power", "gpu_power_watts", 1.0),
    ("temperature_hotspot", "gpu_temperature_celsius", 1.0),
    ("temperature_mem", "gpu_memory_temperature_celsius", 1.0),
    ("pcie_link_width", "gpu_pcie_width", 1.0),
    ("pcie_replay_count_acc", "gpu_pcie_replays_total", 1.0),
    ("xgmi_read_data_acc", "gpu_xgmi_read_bytes_total", 1024.0),
    ("xgmi_write_data_acc", "gpu_xgmi_written_bytes_total", 1024.0),
    ("ppt_residency_acc", "gpu_power_cap_time_total", 1.0),
    ("socket_thm_residency_acc", "gpu_software_thermal_time_total", 1.0),
    ("prochot_residency_acc", "gpu_hardware_thermal_time_total", 1.0),
)


class Amd(Source):
    """Every GPU that AMD SMI lists. The constructor raises SourceError."""

    name = "amd"

    def __init__(self, sys: Path = Path("/sys"), library: str = "amdsmi") -> None:
        if not (sys / "module/amdgpu").exists():
            raise SourceError("not there: no AMD GPU driver on this host")
        try:
            self._smi: ModuleType = importlib.import_module(library)
        except (ImportError, OSError, KeyError):  # it loads libamd_smi.so as it is imported
            raise SourceError("amdsmi is not installed (it comes with ROCm)") from None
        try:
            self._smi.amdsmi_init()
            handles = self._smi.amdsmi_get_processor_handles()
            self._handles = {f"gpu:{self._smi.amdsmi_get_gpu_device_uuid(h)}": h for h in handles}
        except self._smi.AmdSmiException as error:
            raise SourceError(f"AMD SMI: {error}") from None

    def read(self) -> Iterator[Reading]:
        """All metrics of each GPU, and its ECC errors."""
        for device, handle in self._handles.items():
            try:
                metrics = self._smi.amdsmi_get_gpu_metrics_info(handle)
                errors = self._smi.amdsmi_get_gpu_total_ecc_count(handle)
            except self._smi.AmdSmiException as error:
                yield Reading(device, "gpu_utilization_percent", NAN, f"AMD SMI: {error}")
                continue
            yield from _readings(device, metrics)
            yield Reading(device, "gpu_ecc_corrected_total", errors["correctable_count"])
            yield Reading(device, "gpu_ecc_uncorrected_total", errors["uncorrectable_count"])


def _readings(device: str, metrics: Mapping[str, Any]) -> Iterator[Reading]:
    for key, metric, factor in _METRICS:
        given = metrics.get(key, _NOT_THERE)
        listed = given if isinstance(given, list) else [given]
        values = [float(value) for value in listed if value != _NOT_THERE]
        if values:
            yield Reading(device, metric, sum(values) * factor)
        else:
            yield Reading(device, metric, NAN, "Not Supported")
