"""A pynvml with two GPUs. Any call that it does not know fails loudly."""

from __future__ import annotations

import threading
from types import ModuleType, SimpleNamespace
from typing import Any

UUIDS = ("GPU-11111111-2222-3333-4444-555555555555", "GPU-99999999-2222-3333-4444-555555555555")
ALL_LINKS = 0xFFFFFFFF
_PER_LINK = (138, 139, 161, 162, 163, 208, 221)


class NVMLError(Exception):
    """As pynvml's: `value` is the code."""

    def __init__(self, value: int) -> None:
        texts = {3: "Not Supported", 10: "Timeout", 13: "Function Not Found", 15: "GPU is lost"}
        super().__init__(texts[value])
        self.value = value


class FunctionNotFound(NVMLError):
    """The driver is older than the library."""


class FakeNvml(ModuleType):
    """`fields`: value by id, -1 not supported. `lost`: GPUs that have fallen off the bus. `absent`:
    functions that this version does not have.
    """

    NVMLError = NVMLError
    NVMLError_FunctionNotFound = FunctionNotFound
    NVML_ERROR_TIMEOUT = 10

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.fields: dict[int, float] = {}
        self.lost: set[int] = set()
        self.absent: set[str] = set()
        self.xids: list[tuple[int, int]] = []
        self.num_field_calls = 0
        self._waiting = threading.Event()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in self.absent:
            raise AttributeError(f"module 'pynvml' has no attribute '{name}'")
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if name in self.absent:
            raise AttributeError(f"module 'pynvml' has no attribute '{name}'")
        raise AssertionError(f"the fake pynvml has no {name}")

    def nvmlInit(self) -> None:
        """Nothing to load."""

    def nvmlDeviceGetCount(self) -> int:
        return len(UUIDS)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        self._check(handle)
        return UUIDS[handle]

    def _check(self, handle: int) -> None:
        if handle in self.lost:
            raise NVMLError(15)

    def nvmlDeviceGetFieldValues(self, handle: int, request: list[tuple[int, int]]) -> list[Any]:
        self._check(handle)
        self.num_field_calls += 1
        for field, scope in request:
            assert scope == (ALL_LINKS if field in _PER_LINK else 0), field
        return [self._value(field) for field, _ in request]

    def _value(self, field: int) -> Any:
        value = self.fields.get(field, 0)
        kind = 0 if isinstance(value, float) else 3
        member = SimpleNamespace(**{"dVal" if kind == 0 else "ullVal": value})
        return SimpleNamespace(
            fieldId=field, nvmlReturn=3 if value == -1 else 0, valueType=kind, value=member
        )

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        self._check(handle)
        return SimpleNamespace(gpu=97, memory=41)

    def nvmlDeviceGetClockInfo(self, handle: int, which: int) -> int:
        self._check(handle)
        return {1: 1980, 2: 2619}[which]

    def nvmlDeviceGetMaxClockInfo(self, handle: int, which: int) -> int:
        self._check(handle)
        return {1: 1980}[which]

    def nvmlDeviceGetTemperatureV(self, handle: int, sensor: int) -> int:
        self._check(handle)
        return {0: 63}[sensor]

    nvmlDeviceGetTemperature = nvmlDeviceGetTemperatureV

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        self._check(handle)
        return 0x24

    nvmlDeviceGetCurrentClocksThrottleReasons = nvmlDeviceGetCurrentClocksEventReasons

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        self._check(handle)
        return SimpleNamespace(used=10, total=100)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        self._check(handle)
        return 700_000

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: int) -> int:
        self._check(handle)
        return 5

    nvmlDeviceGetMaxPcieLinkGeneration = nvmlDeviceGetCurrPcieLinkGeneration

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: int) -> int:
        self._check(handle)
        return 8

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: int) -> int:
        self._check(handle)
        return 16

    def nvmlEventSetCreate(self) -> str:
        return "events"

    def nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: str) -> None:
        assert (kinds, events) == (0x8, "events")

    def nvmlEventSetWait_v2(self, events: str, timeout_ms: int) -> Any:
        if not self.xids:
            self._check(max(self.lost, default=-1))
            self._waiting.wait(0.01)
            raise NVMLError(10)
        handle, xid = self.xids.pop(0)
        return SimpleNamespace(device=handle, eventData=xid)
