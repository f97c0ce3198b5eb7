"""NVIDIA GPUs, read from a fake pynvml that fails loudly on calls it does not know."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.trace_hooks.telemetry.fake_nvml import UUIDS, FakeNvml, FunctionNotFound
from tests.trace_hooks.telemetry.made_trees import reasons, tree, values
from tests.waiting import wait_until
from trace_hooks.telemetry.names import METRICS
from trace_hooks.telemetry.nvidia import Nvidia
from trace_hooks.telemetry.reading import SourceError

FIRST, SECOND = (f"gpu:{uuid.removeprefix('GPU-')}" for uuid in UUIDS)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return tree(tmp_path, {"driver/nvidia/version": "NVRM version: 1\n"})


def test_units_are_those_of_the_names(nvml: FakeNvml, proc: Path) -> None:
    nvml.fields = {186: 650_500, 83: 5_000, 138: 2, 4: 1, 82: 71, 269: 12}
    found = values(Nvidia(proc).read())
    assert found[FIRST, "gpu_power_watts"] == 650.5
    assert found[FIRST, "gpu_energy_joules_total"] == 5.0
    assert found[FIRST, "gpu_nvlink_transmitted_bytes_total"] == 2048
    assert found[FIRST, "gpu_ecc_uncorrected_total"] == 1
    assert found[FIRST, "gpu_software_thermal_time_total"] == 12
    assert found[SECOND, "gpu_utilization_percent"] == 97
    assert found[SECOND, "gpu_clock_event_reasons"] == 0x24
    assert found[SECOND, "gpu_power_limit_watts"] == 700
    assert found[SECOND, "gpu_pcie_width"] == 8
    assert {metric for _, metric in found} <= METRICS.keys()


def test_fields_are_read_in_one_call_of_each_gpu(nvml: FakeNvml, proc: Path) -> None:
    source = Nvidia(proc)
    first = values(source.read())
    assert nvml.num_field_calls == 2
    second = values(source.read())
    assert {"gpu_pcie_width", "gpu_memory_total_bytes"} <= {m for _, m in first.keys() - second}
    detectors = {m for m in METRICS if m.startswith("gpu_") and METRICS[m].is_detector_input}
    assert detectors & {m for _, m in first} <= {m for _, m in second}


def test_what_a_gpu_does_not_support_is_not_zero(nvml: FakeNvml, proc: Path) -> None:
    nvml.fields = {230: -1}
    assert reasons(Nvidia(proc)) == {
        (gpu, "gpu_recovery_action"): "Not Supported" for gpu in (FIRST, SECOND)
    }


NEWER = {"nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons"}


def test_an_older_library_has_functions_by_their_older_names(nvml: FakeNvml, proc: Path) -> None:
    nvml.absent = NEWER
    found = values(Nvidia(proc).read())
    assert found[SECOND, "gpu_temperature_celsius"] == 63
    assert found[SECOND, "gpu_clock_event_reasons"] == 0x24


def test_an_older_driver_has_functions_by_their_older_names(
    nvml: FakeNvml, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_found(*_arguments: object) -> None:
        raise FunctionNotFound(13)

    for name in NEWER:
        monkeypatch.setattr(nvml, name, not_found, raising=False)
    found = values(Nvidia(proc).read())
    assert found[SECOND, "gpu_temperature_celsius"] == 63
    assert found[SECOND, "gpu_clock_event_reasons"] == 0x24


def test_a_lost_gpu_says_so_and_the_other_is_read(nvml: FakeNvml, proc: Path) -> None:
    source = Nvidia(proc)
    nvml.lost = {0}
    readings = list(source.read())
    lost = {r.reason for r in readings if r.device == FIRST and r.metric != "gpu_xid_errors_total"}
    assert lost == {"GPU is lost"}
    assert not any(r.reason for r in readings if r.device == SECOND)


def test_xids_are_counted_by_gpu(nvml: FakeNvml, proc: Path) -> None:
    source = Nvidia(proc)
    nvml.xids = [(1, 79), (1, 48)]
    wait_until(lambda: values(source.read())[SECOND, "gpu_xid_errors_total"] == 2)
    found = values(source.read())
    assert found[SECOND, "gpu_xid_last"] == 48
    assert found[FIRST, "gpu_xid_errors_total"] == 0
    assert (FIRST, "gpu_xid_last") not in found


def test_the_xid_of_a_gpu_that_falls_off_the_bus_is_counted(nvml: FakeNvml, proc: Path) -> None:
    source = Nvidia(proc)
    nvml.xids, nvml.lost = [(1, 79)], {1}

    def xids() -> dict[tuple[str, str], float | str]:
        found = (r for r in source.read() if r.metric.startswith("gpu_xid"))
        return {(r.device, r.metric): r.reason or r.value for r in found}

    wait_until(lambda: xids()[FIRST, "gpu_xid_errors_total"] == "no events: GPU is lost")
    assert xids()[SECOND, "gpu_xid_errors_total"] == 1
    assert xids()[SECOND, "gpu_xid_last"] == 79


def test_no_driver_and_no_library(
    tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceError, match="no NVIDIA driver on this host"):
        Nvidia(tmp_path / "none")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(SourceError, match=r"pip install nvidia-ml-py"):
        Nvidia(proc)
