"""System metrics of Weights & Biases: what `run.history(stream="system")` gives, in a file.

JSON lines or CSV; a row has `_timestamp` (Unix seconds), perhaps `_runtime`, and columns such as
`system.gpu.0.powerWatts`. GPUs are numbered on their host; no row names host or rank: the rank is
that of the file's name, if it has one. Source: wandb's core/pkg/monitor and xpu.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ingest.readers.base import Format
from ingest.readers.parsing.json_lines import JsonLines, first_objects
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.machine_samples import MachineSamples, SamplesImport, TooManySamples
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import TooLarge, all_of, named_rank
from trace_hooks.schema import UNKNOWN

FORMAT = Format("wandb_system", "W&B system metrics", is_generic=True, accompanies=True)

_MIB = float(1 << 20)
_GPU = re.compile(r"(?:system\.)?gpu\.(\d{1,3})\.(\w{1,60})")
_GPU_METRICS: dict[str, tuple[str, float]] = {
    "gpu": ("gpu_utilization_percent", 1),
    "memory": ("gpu_memory_utilization_percent", 1),
    "temp": ("gpu_temperature_celsius", 1),
    "powerWatts": ("gpu_power_watts", 1),
    "enforcedPowerLimitWatts": ("gpu_power_limit_watts", 1),
    "smClock": ("gpu_sm_clock_mhz", 1),
    "memoryClock": ("gpu_memory_clock_mhz", 1),
    "memoryAllocatedBytes": ("gpu_memory_used_bytes", 1),
    "correctedMemoryErrors": ("gpu_ecc_corrected_total", 1),
    "uncorrectedMemoryErrors": ("gpu_ecc_uncorrected_total", 1),
    "pcieLinkGen": ("gpu_pcie_generation", 1),
    "pcieLinkWidth": ("gpu_pcie_width", 1),
    "smActive": ("gpu_compute_active_ratio", 0.01),
    "pipeTensorActive": ("gpu_tensor_active_ratio", 0.01),
    "dramActive": ("gpu_dram_active_ratio", 0.01),
}
_METRICS: dict[str, tuple[str, str, float]] = {
    "cpu": ("cpu_utilization_percent", "host", 1),
    "memory_percent": ("memory_used_percent", "host", 1),
    "memory": ("memory_used_percent", "host", 1),
    "proc.memory.rssMB": ("process_resident_bytes", "process", _MIB),
    "proc.cpu.threads": ("process_threads", "process", 1),
}
_TIME = "_timestamp"
_MOST_NAMED = 5
_CSV_HEAD = re.compile(rb'(?:"?[\w./ -]{0,80}"?,){0,400}"?_timestamp"?(?:,|\r?\n)')


def recognises(source: Source) -> bool:
    """Whether its rows have times and columns of W&B's system metrics."""
    if source.head.lstrip()[:1] == b"{":
        return any(_is_row(line) for line in first_objects(source.head))
    first = source.head.partition(b"\n")[0]
    return _CSV_HEAD.match(source.head) is not None and b"system." in first


def _is_row(row: Mapping[str, Any]) -> bool:
    return _TIME in row and any(key.startswith("system.") or _GPU.fullmatch(key) for key in row)


def read(source: Source, staged: StagedRows) -> MachineSamples | None:
    """Read one file."""
    samples, unknown = MachineSamples(), Counter[str]()
    rank = named_rank(source.name)
    rank = UNKNOWN if rank is None else rank
    lines = JsonLines(source.read)
    num_bad = 0
    try:
        rows = iter(lines) if source.head.lstrip()[:1] == b"{" else _csv_rows(source)
        for row in rows:
            num_bad += not _take(samples, row, rank, unknown)
    except (TooLarge, TooManySamples, csv.Error) as error:
        staged.add_problem(f"{source.name}: {error}")
    for problem in (*lines.problems, *source.damages()):
        staged.add_problem(f"{source.name}: {problem}")
    if num_bad:
        staged.add_problem(f"{source.name}: {num_bad:,} rows without a time were left out")
    if unknown:
        names = ", ".join(name for name, _ in unknown.most_common(_MOST_NAMED))
        staged.add_guess(
            f"{source.name}: {len(unknown):,} columns without a counterpart were left out "
            f"({names}, ...)"
        )
    if not len(samples):
        staged.add_problem(f"{source.name}: no sample could be read")
        return None
    return samples


class Import(SamplesImport):
    """One import: files of any processes of a run."""

    what = "W&B's system metrics"

    def finish(self) -> None:
        """Write all rows."""
        self._sink.add_guess(
            "W&B names no host: its GPUs are numbered on the host of the process that logged them"
        )
        super().finish()


def _csv_rows(source: Source) -> Iterator[dict[str, Any]]:
    """Rows of a CSV file with a head; raises TooLarge and csv.Error."""
    text = all_of(source).decode("utf-8", "replace")
    yield from csv.DictReader(io.StringIO(text, newline=""))


def _take(
    samples: MachineSamples, row: Mapping[Any, Any], rank: int, unknown: Counter[str]
) -> bool:
    """Samples of one row; False where it has no time."""
    seconds = _number(row.get(_TIME))
    if seconds is None or not 0 < seconds < 2**33:
        return False
    ts_ns = round(seconds * 1e6) * 1000
    for key, text in _columns(row):
        found = _metric_of(key)
        if found is None:
            unknown[key[:80]] += 1
            continue
        metric, device, factor = found
        value = _number(text)
        if value is not None:
            of = rank if device == "process" else UNKNOWN
            samples.add("", device, metric, ts_ns, value * factor, rank=of)
    return True


def _columns(row: Mapping[Any, Any]) -> Iterable[tuple[str, Any]]:
    """Columns that are metrics, with a value: a row has NaN or nothing where none was taken."""
    for key, text in row.items():
        is_metric = isinstance(key, str) and key and not key.startswith(("_", "Unnamed"))
        if is_metric and text not in (None, "", "NaN", "nan"):
            yield key, text


def _metric_of(key: str) -> tuple[str, str, float] | None:
    match = _GPU.fullmatch(key)
    if match is not None:
        found = _GPU_METRICS.get(match[2])
        return None if found is None else (found[0], f"gpu:{int(match[1])}", found[1])
    return _METRICS.get(key.removeprefix("system."))


def _number(value: object) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
