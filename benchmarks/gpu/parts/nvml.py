"""(j) Reading NVML once a second: what a reading costs, and whether it slows a step.

Needs nvidia-ml-py. One reading queries temperature, power, clocks, utilisation, reasons for lower
clocks, errors of memory (ECC) and of each NVLink; a note lists what the device does not support.
Each query has a figure, wall and CPU time: some wait for the driver for milliseconds, and may
delay the job's own calls to it meanwhile. Whether they do is measured last: blocks of steps without
readings, without them again (the noise), and with one a second from another thread, alternating,
for a small model that waits for launches and a large one.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from benchmarks.gpu.figures import Figure, NotHere, Place
from benchmarks.gpu.spread import spread
from benchmarks.gpu.training import LARGE, SMALL, Training, Workload
from benchmarks.timing import in_turns

READINGS, EVERY_S = 30, 1.0
WAYS = ("without", "without again", "with")
ROUNDS, BLOCK_S = 5, 3.0

Query = Callable[[], object]


def measure(place: Place) -> None:
    """A reading alone, then during training."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        raise NotHere("nvidia-ml-py is not installed") from None
    uuid = _uuid(place)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise NotHere(f"NVML does not start: {error}") from None
    try:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        queries = supported(queries_of(nvml, device), nvml.NVMLError, place.say)
        for figure in reading_figures(queries, place.sized(READINGS, 3)):
            place.say(figure)
        for workload in (SMALL, LARGE):
            for figure in _during_training(place, workload, queries):
                place.say(figure)
    finally:
        nvml.nvmlShutdown()


def _uuid(place: Place) -> str:
    if place.is_rehearsal:
        raise NotHere("needs a CUDA device")
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def queries_of(nvml: ModuleType | Any, device: Any) -> dict[str, Query]:
    """What one reading asks, by name; versions of the package name the reasons differently."""
    reasons = getattr(
        nvml,
        "nvmlDeviceGetCurrentClocksEventReasons",
        getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None),
    )
    queries: dict[str, Query] = {
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU),
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(device),
        "clock of the SMs": lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM),
        "clock of the memory": lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM),
        "utilisation": lambda: nvml.nvmlDeviceGetUtilizationRates(device),
        "ECC errors": lambda: nvml.nvmlDeviceGetTotalEccErrors(
            device, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        ),
        "NVLink errors": lambda: nvlink_errors(nvml, device),
    }
    if reasons is not None:
        queries["reasons for lower clocks"] = lambda: reasons(device)
    return queries


def nvlink_errors(nvml: ModuleType | Any, device: Any) -> int:
    """Replays of all links that are up; raises NVMLError where the device has no NVLink."""
    total = 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            is_up = nvml.nvmlDeviceGetNvLinkState(device, link)
        except nvml.NVMLError:
            if link == 0:
                raise
            break  # it has fewer
        if is_up:
            kind = nvml.NVML_NVLINK_ERROR_DL_REPLAY
            total += nvml.nvmlDeviceGetNvLinkErrorCounter(device, link, kind)
    return total


def supported(
    queries: dict[str, Query], refusal: type[Exception], say: Callable[[Figure], None]
) -> dict[str, Query]:
    """Those that this device answers; the others are named."""
    by_name = {}
    for name, query in queries.items():
        try:
            query()
        except refusal as error:
            say(Figure(name, f"not here: {error}"))
        else:
            by_name[name] = query
    return by_name


def reading_figures(queries: dict[str, Query], readings: int) -> list[Figure]:
    """Wall and CPU time of a reading and of its queries, after one that warms up."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in queries}
    for _ in range(readings):
        for name, query in queries.items():
            wall_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
            query()
            cpu_ns = time.thread_time_ns() - cpu_ns
            times[name].append(((time.perf_counter_ns() - wall_ns) / 1e6, cpu_ns / 1e6))
    results = []
    for column, kind in enumerate(("wall", "CPU")):
        readings_of = zip(*times.values(), strict=True)
        sums = spread([sum(one[column] for one in reading) for reading in readings_of])
        name = f"a reading of {len(queries)} queries, {kind} time"
        results.append(Figure(name, sums.median, "ms", note=sums.in_words("ms")))
    for name, measured in times.items():
        wall, cpu = (spread([one[column] for one in measured]) for column in (0, 1))
        note = f"CPU {cpu.median:.3g} ms; wall {wall.in_words('ms')}"
        results.append(Figure(f"{name}, wall time", wall.median, "ms", note=note))
    return results


@contextlib.contextmanager
def read_every_second(queries: dict[str, Query]) -> Iterator[list[float]]:
    """Another thread reads; the list has when, in seconds."""
    stopped, at_s = threading.Event(), list[float]()

    def run() -> None:
        while True:
            at_s.append(time.monotonic())
            for query in queries.values():
                query()
            if stopped.wait(EVERY_S):
                return

    thread = threading.Thread(target=run, name="nvml")
    thread.start()
    try:
        yield at_s
    finally:
        stopped.set()
        thread.join()


def _during_training(place: Place, workload: Workload, queries: dict[str, Query]) -> list[Figure]:
    training = Training(place, workload)
    for _ in range(5):
        training.step()
    place.wait()

    def turn(way: str) -> float:
        reading = read_every_second(queries) if way == "with" else contextlib.nullcontext()
        with reading:
            return step_ms(place, training.step)

    return slowing_figures(workload.name, in_turns(WAYS, ROUNDS, turn))


def step_ms(place: Place, step: Callable[[], object]) -> float:
    """Wall time of a step in a block of BLOCK_S; the device may run ten steps behind at most."""
    begun_s, steps = time.monotonic(), 0
    while time.monotonic() - begun_s < BLOCK_S:
        for _ in range(10):
            step()
        steps += 10
        place.wait()
    return (time.monotonic() - begun_s) / steps * 1e3


def slowing_figures(name: str, times: dict[str, list[float]]) -> list[Figure]:
    """What readings add to a step, pair by pair, and what nothing adds."""
    alone = times["without"]
    step = spread(alone)
    results = [Figure(f"{name}: a step", step.median, "ms", note=step.in_words("ms"))]
    for way, what in (("without again", "noise"), ("with", "added by a reading a second")):
        share = spread([(b / a - 1) * 100 for a, b in zip(alone, times[way], strict=True)])
        note = share.in_words("%", "pairs")
        results.append(Figure(f"{name}: {what}", share.median, "%", note=note))
    return results
