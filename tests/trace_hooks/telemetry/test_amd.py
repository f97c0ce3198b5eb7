"""AMD GPUs, read from a fake amdsmi that fails loudly on calls it does not know."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.trace_hooks.telemetry.made_trees import tree
from trace_hooks.telemetry.amd import Amd
from trace_hooks.telemetry.reading import SourceError

METRICS = {
    "average_gfx_activity": 88,
    "current_socket_power": 540,
    "current_gfxclk": 2100,
    "temperature_hotspot": 77,
    "xgmi_read_data_acc": [1, 2, "N/A"],
    "pcie_replay_count_acc": 0,
    "temperature_mem": "N/A",
}


class FakeSmi(ModuleType):
    """One GPU."""

    class AmdSmiException(Exception):
        """As amdsmi's."""

    def __init__(self) -> None:
        super().__init__("amdsmi")
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the fake amdsmi has no {name}")

    def amdsmi_init(self) -> None:
        """Nothing to load."""

    def amdsmi_get_processor_handles(self) -> list[str]:
        return ["handle"]

    def amdsmi_get_gpu_device_uuid(self, handle: str) -> str:
        return "aaff-1"

    def amdsmi_get_gpu_metrics_info(self, handle: str) -> dict[str, Any]:
        if self.fails:
            raise self.AmdSmiException("AMDSMI_STATUS_NO_DATA")
        return METRICS

    def amdsmi_get_gpu_total_ecc_count(self, handle: str) -> dict[str, int]:
        return {"correctable_count": 4, "uncorrectable_count": 1, "deferred_count": 0}


@pytest.fixture
def smi(monkeypatch: pytest.MonkeyPatch) -> FakeSmi:
    fake = FakeSmi()
    monkeypatch.setitem(sys.modules, "amdsmi", fake)
    return fake


def test_what_it_has_and_what_it_lacks(smi: FakeSmi, tmp_path: Path) -> None:
    readings = {r.metric: r for r in Amd(tree(tmp_path, {"module/amdgpu/x": ""})).read()}
    assert readings["gpu_power_watts"].value == 540
    assert readings["gpu_xgmi_read_bytes_total"].value == 3 * 1024
    assert readings["gpu_pcie_replays_total"].value == 0
    assert readings["gpu_ecc_uncorrected_total"].value == 1
    assert readings["gpu_memory_temperature_celsius"].reason == "Not Supported"
    assert {r.device for r in readings.values()} == {"gpu:aaff-1"}


def test_a_gpu_that_does_not_answer(smi: FakeSmi, tmp_path: Path) -> None:
    source = Amd(tree(tmp_path, {"module/amdgpu/x": ""}))
    smi.fails = True
    (reading,) = source.read()
    assert reading.reason == "AMD SMI: AMDSMI_STATUS_NO_DATA"


def test_no_driver_and_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="no AMD GPU driver"):
        Amd(tmp_path)
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    with pytest.raises(SourceError, match="comes with ROCm"):
        Amd(tree(tmp_path, {"module/amdgpu/x": ""}))
