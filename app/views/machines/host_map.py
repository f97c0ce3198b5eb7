"""Hosts x metrics, or hosts x ports of one metric: values, and how far each is from the others.

H hosts, C columns; arrays of an answer are flat, row by row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from app.views.ranks import scales
from diagnosis.statistics.natural_order import natural
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.telemetry.names import METRICS

LEAST_HOSTS = 4
"""With fewer there is nothing that a host could differ from."""

NOISE, FULL = 3.0, 12.0
"""Robust standard deviations: noise up to the first, of many hosts a little more; the strongest
colour from the second.
"""

_LEAST_SPREAD, _LEAST_OF_MANY = 0.05, 0.005
"""Of the median: hosts that agree to the last digit do not make a small difference a large one. Of
LEAST_HOSTS, and of very many: their spread is known better, by the root of their number.
"""
_EVER = (-1, 2**62)
OF_THE_TIME = "of the time"
"""Unit of seconds a second; shown in per cent."""
_UNITS = frozenset(
    ("bytes", "seconds", "percent", "celsius", "watts", "joules", "mhz", "ratio", "bits", "per")
)
_ACRONYMS = {
    **{word: word.upper() for word in ("cpu", "gpu", "sm", "tcp", "ecc", "crc", "oom", "nic")},
    "pcie": "PCIe",
    "nvlink": "NVLink",
    "xgmi": "XGMI",
    "xid": "Xid",
    "numa": "NUMA",
    "ecn": "ECN",
    "dram": "DRAM",
    "io": "I/O",
}

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """One column: a metric of a kind of device, or a port."""

    name: str
    title: str
    unit: str
    doc: str
    kind: str


@dataclass(frozen=True)
class HostMap:
    """`floats_3HC`: value, least and most of the devices of a kind together; NaN not recorded.
    `which_HC`: the one of the three that is furthest from the other hosts', which is coloured;
    `code_HC`: bytes of assets/lib/canvas/colour.mjs. `median_C`: of all `num_hosts`.
    """

    hosts: tuple[str, ...]
    columns: tuple[Column, ...]
    floats_3HC: Floats
    code_HC: npt.NDArray[np.uint8]
    which_HC: npt.NDArray[np.uint8]
    median_C: Floats
    num_hosts: int

    @classmethod
    def of(cls, hosts: Sequence[str], columns: Sequence[Column], floats_3HC: Floats) -> HostMap:
        """Compare the hosts with each other."""
        code_3HC = np.array([codes(one_HC) for one_HC in floats_3HC])
        which_HC = np.argmax(code_3HC // 2, axis=0)
        code_HC = np.take_along_axis(code_3HC, which_HC[None], axis=0)[0]
        median_C = np.full(len(columns), math.nan)
        known_C = ~np.isnan(floats_3HC[0]).all(axis=0)
        median_C[known_C] = np.nanmedian(floats_3HC[0][:, known_C], axis=0)
        which_HC = which_HC.astype(np.uint8)
        return cls(
            tuple(hosts), tuple(columns), floats_3HC, code_HC, which_HC, median_C, len(hosts)
        )

    def furthest(self, most: int) -> HostMap:
        """The hosts that differ most, in order, compared with all."""
        if len(self.hosts) <= most or not self.columns:
            return self
        order_H = np.argsort(-(self.code_HC // 2).max(axis=1).astype(int), kind="stable")
        kept = np.sort(order_H[:most])
        return replace(
            self,
            hosts=tuple(self.hosts[host] for host in kept),
            floats_3HC=self.floats_3HC[:, kept],
            code_HC=self.code_HC[kept],
            which_HC=self.which_HC[kept],
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """For one binary answer."""
        named = zip(("value", "least", "most"), self.floats_3HC, strict=True)
        return {
            "code": self.code_HC.reshape(-1),
            "which": self.which_HC.reshape(-1),
            **{name: one_HC.reshape(-1).astype(np.float32) for name, one_HC in named},
        }

    def meta(self) -> dict[str, Any]:
        """For its header."""
        return {
            "hosts": list(self.hosts),
            "columns": [vars(column) for column in self.columns],
            "compares": self.num_hosts >= LEAST_HOSTS,
            "num_hosts": self.num_hosts,
            "medians": [None if math.isnan(one) else float(one) for one in self.median_C],
        }


def codes(value_HC: Floats) -> npt.NDArray[np.uint8]:
    """How far each host is from the median host, as a byte of the colour scale."""
    code_HC = np.where(np.isnan(value_HC), 0, 1).astype(np.uint8)
    if len(value_HC) < LEAST_HOSTS:
        return code_HC
    known_C = ~np.isnan(value_HC).all(axis=0)
    value_HK = value_HC[:, known_C]
    middle_K = np.nanmedian(value_HK, axis=0)
    spread_K = 1.4826 * np.nanmedian(np.abs(value_HK - middle_K), axis=0)
    least = max(_LEAST_SPREAD * math.sqrt(LEAST_HOSTS / len(value_HC)), _LEAST_OF_MANY)
    spread_K = np.maximum(spread_K, least * np.abs(middle_K))
    # what a normal number exceeds by chance in fewer than one of twenty such maps
    noise = max(NOISE, math.sqrt(2 * math.log(20 * value_HC.size)))
    with np.errstate(divide="ignore", invalid="ignore"):
        away_HK = (value_HK - middle_K) / spread_K
    away_HK = np.where(value_HK == middle_K, 0.0, np.clip(away_HK, -FULL, FULL))
    away_HK = away_HK.astype(np.float32)
    code_HK = scales.codes(away_HK, np.full_like(away_HK, noise), FULL)
    code_HC[:, known_C] = code_HK
    return code_HC


def host_map(
    run: Run, attempt: int, steps: tuple[int, int] | None = None, stop: Stop | None = None
) -> HostMap:
    """Every host and every metric that is not zero everywhere."""
    first, last = steps or _EVER
    rows = run.ask(
        "host_metric_cells", attempt=attempt, step_min=first, step_max=last, stop=stop
    ).to_pylist()
    useful = {row["metric"] for row in rows if row["value"] and _is_telling(row["metric"])}
    kinds = {row["metric"]: row["kind"] for row in rows}
    order = [name for name in METRICS if name in useful]
    order += sorted(useful - METRICS.keys())
    columns = [_column(name, kinds[name]) for name in order]
    return _filled(rows, columns, "metric")


def port_map(
    run: Run,
    attempt: int,
    metric: str,
    steps: tuple[int, int] | None = None,
    stop: Stop | None = None,
) -> HostMap:
    """Every host and each of its network interfaces or ports."""
    first, last = steps or _EVER
    rows = run.ask(
        "device_metric_cells",
        attempt=attempt,
        metric=metric,
        step_min=first,
        step_max=last,
        stop=stop,
    ).to_pylist()
    about = METRICS.get(metric)
    unit = unit_of(metric)
    names = sorted({row["device"] for row in rows}, key=natural)
    columns = [
        Column(name, name.partition(":")[2], unit, about.doc if about else "", "port")
        for name in names
    ]
    return _filled(rows, columns, "device")


def _is_telling(metric: str) -> bool:
    """Whether a difference between hosts says something about them."""
    return not metric.endswith("_readable") and metric not in (
        "watchdog_cpu_seconds_total",
        "sampler_late_seconds",
        "kernel_log_lines_total",
        "gpu_clock_event_reasons",
        "gpu_recovery_action",
        "gpu_xid_last",
    )


def _column(name: str, kind: str) -> Column:
    about = METRICS.get(name)
    return Column(name, title_of(name), unit_of(name), about.doc if about else "", kind)


def title_of(metric: str) -> str:
    """A metric's name for people: `gpu_sm_clock_mhz` is `GPU SM clock`."""
    words = metric.removesuffix("_total").split("_")
    kept = [_ACRONYMS.get(word, word) for word in words if word not in _UNITS]
    return " ".join(kept) or metric


def unit_of(metric: str) -> str:
    """Unit of what a map shows: of a counter, its rate."""
    about = METRICS.get(metric)
    unit = about.unit if about else ""
    if not metric.endswith("_total"):
        return unit
    if unit == "s":
        return "cores" if "cpu_" in metric and "pressure" not in metric else OF_THE_TIME
    return f"{unit}/s"


def _filled(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], key: str) -> HostMap:
    hosts = sorted({row["host"] for row in rows}, key=natural)
    place = {column.name: number for number, column in enumerate(columns)}
    line = {host: number for number, host in enumerate(hosts)}
    filled_3HC = np.full((3, len(hosts), len(columns)), math.nan)
    for row in rows:
        number = place.get(row[key])
        if number is not None:
            values = [row[name] for name in ("value", "least", "most")]
            known = [math.nan if value is None else value for value in values]
            filled_3HC[:, line[row["host"]], number] = known
    return HostMap.of(hosts, columns, filled_3HC)
