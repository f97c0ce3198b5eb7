"""NVIDIA GPUs through NVML, where nvidia-ml-py (`import pynvml`) is installed.

Most figures of a GPU come from one call of nvmlDeviceGetFieldValues. NVML counts all GPUs of the
host, whatever CUDA_VISIBLE_DEVICES says: a GPU is named by its UUID, without the prefix that torch
does not have. Fans and lists of processes are not read: they cost milliseconds under the driver's
global lock. Source: pynvml.py 13.615, nvml.h.
"""

from __future__ import annotations

import importlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from trace_hooks.telemetry.reading import NAN, Reading, Source, SourceError

_MOST_GPUS = 64
_RARELY = 10
_WAIT_MS = 1000
_CHIP = 0  # NVML_TEMPERATURE_GPU
_SM, _MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_XID = 0x8  # nvmlEventTypeXidCriticalError
_TEMPERATURE = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""A newer and an older name: nvidia-ml-py 12 has not the first of a temperature, 11 none of them.
"""

_FIELDS = {
    3: ("gpu_ecc_corrected_total", 1.0),
    4: ("gpu_ecc_uncorrected_total", 1.0),
    5: ("gpu_ecc_corrected_lifetime_total", 1.0),
    6: ("gpu_ecc_uncorrected_lifetime_total", 1.0),
    74: ("gpu_power_cap_time_total", 1.0),
    82: ("gpu_memory_temperature_celsius", 1.0),
    83: ("gpu_energy_joules_total", 1e-3),
    94: ("gpu_pcie_replays_total", 1.0),
    138: ("gpu_nvlink_transmitted_bytes_total", 1024.0),
    139: ("gpu_nvlink_received_bytes_total", 1024.0),
    142: ("gpu_remapped_rows_corrected_total", 1.0),
    143: ("gpu_remapped_rows_uncorrected_total", 1.0),
    144: ("gpu_remap_pending", 1.0),
    145: ("gpu_remap_failed", 1.0),
    161: ("gpu_nvlink_replays_total", 1.0),
    162: ("gpu_nvlink_recoveries_total", 1.0),
    163: ("gpu_nvlink_crc_errors_total", 1.0),
    173: ("gpu_pcie_correctable_errors_total", 1.0),
    180: ("gpu_pcie_fatal_errors_total", 1.0),
    186: ("gpu_power_watts", 1e-3),
    197: ("gpu_pcie_transmitted_bytes_total", 1.0),
    198: ("gpu_pcie_received_bytes_total", 1.0),
    208: ("gpu_nvlink_receive_errors_total", 1.0),
    221: ("gpu_nvlink_symbol_errors_total", 1.0),
    230: ("gpu_recovery_action", 1.0),
    269: ("gpu_software_thermal_time_total", 1.0),
    270: ("gpu_hardware_thermal_time_total", 1.0),
    271: ("gpu_power_brake_time_total", 1.0),
}
"""Field id: the metric, and what one unit of the field is in the metric's."""

_ALL_LINKS = 0xFFFFFFFF
_OF_LINKS = frozenset((138, 139, 161, 162, 163, 208, 221))
"""Fields of one NVLink, or of all together where the scope is _ALL_LINKS."""
_REQUEST = [(field, _ALL_LINKS if field in _OF_LINKS else 0) for field in _FIELDS]

_VALUE_OF_TYPE = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of nvmlValue_t by nvmlValueType_t."""


def device_of(uuid: str) -> str:
    """`gpu:` and the UUID as torch has it."""
    return f"gpu:{uuid.removeprefix('GPU-')}"


class Nvidia(Source):
    """Every GPU that NVML lists. The constructor raises SourceError."""

    name = "nvidia"

    def __init__(self, proc: Path = Path("/proc"), library: str = "pynvml") -> None:
        if not (proc / "driver/nvidia").exists():
            raise SourceError("not there: no NVIDIA driver on this host")
        try:
            self._nvml: ModuleType = importlib.import_module(library)
        except ImportError:
            raise SourceError("nvidia-ml-py is not installed (pip install nvidia-ml-py)") from None
        try:
            self._nvml.nvmlInit()
            number = min(self._nvml.nvmlDeviceGetCount(), _MOST_GPUS)
            handles = [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(number)]
            self._handles = {device_of(self._nvml.nvmlDeviceGetUUID(h)): h for h in handles}
        except self._nvml.NVMLError as error:
            raise SourceError(f"NVML: {error}") from None
        self._xids = Xids(self._nvml, self._handles)
        self._round = -1

    def read(self) -> Iterator[Reading]:
        """What detectors need each second, the rest each tenth time; a lost GPU says so."""
        self._round += 1
        is_full = self._round % _RARELY == 0
        for device, handle in self._handles.items():
            yield from self._fields(device, handle)
            yield from self._second(device, handle)
            if is_full:
                yield from self._rest(device, handle)
        yield from self._xids.read()

    def _fields(self, device: str, handle: Any) -> Iterator[Reading]:
        try:
            values = self._nvml.nvmlDeviceGetFieldValues(handle, _REQUEST)
        except self._nvml.NVMLError as error:
            for metric, _ in _FIELDS.values():
                yield Reading(device, metric, NAN, str(error))
            return
        for value in values:
            metric, factor = _FIELDS[value.fieldId]
            if value.nvmlReturn:
                text = str(self._nvml.NVMLError(value.nvmlReturn))
                yield Reading(device, metric, NAN, text)
            else:
                number = getattr(value.value, _VALUE_OF_TYPE[value.valueType])
                yield Reading(device, metric, number * factor)

    def _second(self, device: str, handle: Any) -> Iterator[Reading]:
        nvml = self._nvml
        yield from self._one(
            device,
            lambda: nvml.nvmlDeviceGetUtilizationRates(handle),
            gpu_utilization_percent=lambda rates: rates.gpu,
            gpu_memory_utilization_percent=lambda rates: rates.memory,
        )
        yield from self._one(
            device, lambda: nvml.nvmlDeviceGetClockInfo(handle, _SM), gpu_sm_clock_mhz=float
        )
        yield from self._one(
            device, lambda: self._newer(_TEMPERATURE, handle, _CHIP), gpu_temperature_celsius=float
        )
        yield from self._one(
            device, lambda: self._newer(_REASONS, handle), gpu_clock_event_reasons=float
        )

    def _rest(self, device: str, handle: Any) -> Iterator[Reading]:
        nvml = self._nvml
        yield from self._one(
            device,
            lambda: nvml.nvmlDeviceGetMemoryInfo(handle),
            gpu_memory_used_bytes=lambda info: info.used,
            gpu_memory_total_bytes=lambda info: info.total,
        )
        for metric, call in (
            ("gpu_max_sm_clock_mhz", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, _SM)),
            ("gpu_memory_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, _MEMORY)),
            ("gpu_pcie_generation", lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
            ("gpu_pcie_max_generation", lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
            ("gpu_pcie_width", lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
            ("gpu_pcie_max_width", lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        ):
            yield from self._one(device, call, **{metric: float})
        yield from self._one(
            device,
            lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
            gpu_power_limit_watts=lambda limit_mw: limit_mw / 1e3,
        )

    def _newer(self, names: tuple[str, str], *arguments: Any) -> Any:
        """Answer of a function by its newer name, else, where nvidia-ml-py or the driver is too old
        for it, by its older one. Raises NVMLError.
        """
        newer, older = names
        with suppress(AttributeError, self._nvml.NVMLError_FunctionNotFound):
            return getattr(self._nvml, newer)(*arguments)
        return getattr(self._nvml, older)(*arguments)

    def _one(self, device: str, call: Any, **metrics: Any) -> Iterator[Reading]:
        """Readings of one call; `metrics`: what each takes of its answer."""
        try:
            answer = call()
        except self._nvml.NVMLError as error:
            for metric in metrics:
                yield Reading(device, metric, NAN, str(error))
            return
        for metric, part in metrics.items():
            yield Reading(device, metric, float(part(answer)))


class Xids:
    """Xid errors, which NVML reports to a thread that waits for them."""

    def __init__(self, nvml: ModuleType, handles: dict[str, Any]) -> None:
        self._nvml, self._handles = nvml, handles
        self._counts: Counter[str] = Counter()
        self._last: dict[str, int] = {}
        self._problem = ""
        threading.Thread(target=self._wait, name="telemetry xid", daemon=True).start()

    def read(self) -> Iterator[Reading]:
        """How many Xid errors each GPU has had, and the number of the last."""
        for device in self._handles:
            if self._problem and device not in self._last:
                yield Reading(device, "gpu_xid_errors_total", NAN, self._problem)
                continue
            yield Reading(device, "gpu_xid_errors_total", self._counts[device])
            if device in self._last:
                yield Reading(device, "gpu_xid_last", self._last[device])

    def _wait(self) -> None:
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
            for handle in self._handles.values():
                nvml.nvmlDeviceRegisterEvents(handle, _XID, events)
            while True:
                self._take(events)
        except nvml.NVMLError as error:
            self._problem = f"no events: {error}"

    def _take(self, events: Any) -> None:
        """One event; raises NVMLError."""
        nvml = self._nvml
        try:
            event = nvml.nvmlEventSetWait_v2(events, _WAIT_MS)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return
            raise
        device = self._device(event.device)
        self._counts[device] += 1
        self._last[device] = int(event.eventData)

    def _device(self, handle: Any) -> str:
        """Of an event; raises NVMLError. A GPU that has fallen off the bus tells no UUID."""
        try:
            return device_of(self._nvml.nvmlDeviceGetUUID(handle))
        except self._nvml.NVMLError:
            for device, known in self._handles.items():
                if bytes(known) == bytes(handle):  # pointers, of ctypes
                    return device
            raise
