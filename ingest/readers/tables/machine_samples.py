"""Samples of machines that a reader finds: rows of `host_metrics`, with the names of the hooks."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ingest.limits import limits, variable
from ingest.readers.base import Sink
from ingest.readers.tables.rows import Coded, rank_info, rows
from trace_hooks.schema import UNKNOWN

_LONGEST_NAME = 200
_TEXTS = ("hosts", "devices", "metrics", "states")


class TooManySamples(ValueError):
    """A file has more samples than allowed."""


@dataclass
class MachineSamples:
    """Samples in columns; texts are stored once. Can be pickled."""

    hosts: dict[str, int] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    _ints: dict[str, array[int]] = field(
        default_factory=lambda: {name: array("q") for name in ("ts", "rank", *_TEXTS)}
    )
    _values: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        """How many there are."""
        return len(self._values)

    def add(
        self,
        host: str,
        device: str,
        metric: str,
        ts_ns: int,
        value: float,
        reason: str = "",
        rank: int = UNKNOWN,
    ) -> None:
        """One sample; `reason`: why there is no value. Raises TooManySamples."""
        if len(self._values) >= limits().max_rows:
            most = f"{variable('max_rows')}={limits().max_rows}"
            raise TooManySamples(f"has more samples than {most}; raise the limit to read it")
        if reason or not math.isfinite(value):
            value, state = math.nan, f"unreadable: {reason or 'not a number'}"
        else:
            state = "value" if value else "zero"
        self._ints["ts"].append(ts_ns)
        self._ints["rank"].append(rank)
        for name, text in zip(_TEXTS, (host, device, metric, state), strict=True):
            texts: dict[str, int] = getattr(self, name)
            self._ints[name].append(texts.setdefault(text[:_LONGEST_NAME], len(texts)))
        self._values.append(value)

    def extent_ns(self) -> tuple[int, int]:
        """Earliest and latest time; (0, 0) where there is no sample."""
        times = self._ints["ts"]
        return (min(times), max(times)) if times else (0, 0)

    def ranks(self) -> set[int]:
        """Ranks that samples name."""
        return {rank for rank in set(self._ints["rank"]) if rank >= 0}

    def write(self, sink: Sink) -> None:
        """All rows."""
        if not len(self):
            return
        columns: dict[str, Any] = {
            "rank": np.array(self._ints["rank"], np.int32),
            "ts_ns": np.array(self._ints["ts"], np.int64),
            "value": np.array(self._values, np.float64),
            "scope": "host",
        }
        for name, column in zip(_TEXTS, ("host", "device", "metric", "state"), strict=True):
            codes = np.array(self._ints[name], np.int64)
            columns[column] = Coded(codes, list(getattr(self, name)))
        sink.add_rows("host_metrics", 0, rows("host_metrics", len(self), columns))


class SamplesImport:
    """One import of samples: files of any processes, hosts and times. `what` they are, in words."""

    what = "metrics"

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._files: list[MachineSamples] = []

    def add_file(self, samples: MachineSamples) -> None:
        """One file."""
        self._files.append(samples)

    def finish(self) -> None:
        """Write all rows, and a rank: a run has one, also where no file names any."""
        extents = []
        ranks: set[int] = set()
        hosts: set[str] = set()
        for samples in self._files:
            samples.write(self._sink)
            if len(samples):
                extents.append(samples.extent_ns())
                hosts |= samples.hosts.keys()
                ranks |= samples.ranks()
        if not extents:
            return
        began_ns, ended_ns = min(low for low, _ in extents), max(high for _, high in extents)
        host = next(iter(hosts)) if len(hosts) == 1 else ""
        for rank in sorted(ranks) or [0]:
            self._sink.add_rank(rank_info(rank, host=host, started_ns=began_ns, ended_ns=ended_ns))
        if not ranks:
            self._sink.add_guess(
                f"{self.what} name no rank: alone they are shown as a run of rank 0"
            )
