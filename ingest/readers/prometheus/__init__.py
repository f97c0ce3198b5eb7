"""Metrics of dcgm-exporter and node_exporter: text expositions, and answers of range queries.

A text exposition is one scrape; its time is that of its lines, else that of the file. An answer of
Prometheus' HTTP API (query_range, or query) is JSON. Metrics are translated into the names of the
hooks (aliases.py), so that queries and detectors read both alike; others are left out and counted.
Source: Prometheus' "Exposition formats" and "HTTP API".
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest.readers.base import Format
from ingest.readers.parsing.sources import Source
from ingest.readers.prometheus.aliases import BLANKS, CPU_MODES, Alias, alias_of
from ingest.readers.prometheus.exposition import lines_of, sample_of
from ingest.readers.tables.machine_samples import MachineSamples, SamplesImport, TooManySamples
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import TooLarge, all_of

FORMAT = Format("prometheus", "Prometheus metrics", is_generic=True, accompanies=True)

_PREFIXES = ("DCGM_FI_", "node_")
_HOST_LABELS = ("Hostname", "hostname", "host", "node", "kubernetes_node", "nodename", "instance")
_TEXT_LINES = 400
_MOST_NAMED = 5


def recognises(source: Source) -> bool:
    """Whether it has a line of a metric that we know, or is an answer with such a series."""
    head = source.head.lstrip()[:64]
    if head.startswith(b"{"):
        text = source.head[:65536]
        return b'"resultType"' in text and b'"__name__"' in text
    lines = source.head.decode("utf-8", "replace").splitlines()[:_TEXT_LINES]
    samples = (sample_of(line) for line in lines if line.startswith(_PREFIXES))
    return any(sample is not None for sample in samples)


@dataclass
class _File:
    """One file, read."""

    samples: MachineSamples = field(default_factory=MachineSamples)
    unknown: Counter[str] = field(default_factory=Counter)
    cpu: dict[tuple[str, int, str], float] = field(default_factory=lambda: defaultdict(float))
    is_timed_by_file: bool = False


def read(source: Source, staged: StagedRows) -> MachineSamples | None:
    """Read one file."""
    file = _File()
    try:
        data = all_of(source)
        if data.lstrip()[:1] == b"{":
            _read_answer(file, data)
        else:
            _read_text(file, data, _time_of_file(source), staged, source.name)
        _add_cpu(file)
    except (TooLarge, TooManySamples) as error:
        staged.add_problem(f"{source.name}: {error}")
    except (ValueError, RecursionError) as error:
        staged.add_problem(f"{source.name}: is no answer of Prometheus: {error}")
        return None
    for damage in source.damages():
        staged.add_problem(f"{source.name}: {damage}")
    if file.is_timed_by_file:
        staged.add_guess(
            f"{source.name} has no times: all of it is taken as of the file's last change"
        )
    if file.unknown:
        names = ", ".join(name for name, _ in file.unknown.most_common(_MOST_NAMED))
        staged.add_guess(
            f"{source.name}: {sum(file.unknown.values()):,} samples of {len(file.unknown):,} "
            f"metrics without a counterpart were left out ({names}, ...)"
        )
    if not len(file.samples):
        staged.add_problem(f"{source.name}: no sample could be read")
        return None
    return file.samples


class Import(SamplesImport):
    """One import: files of any hosts and times."""

    what = "metrics of exporters"


def _time_of_file(source: Source) -> int:
    """Last change of the file, Unix ns; 0 in an archive."""
    if source.path is None:
        return 0
    try:
        return source.path.stat().st_mtime_ns
    except OSError:
        return 0


def _read_text(file: _File, data: bytes, file_ns: int, staged: StagedRows, name: str) -> None:
    bad, again = 0, 0
    seen: set[tuple[str, str]] = set()
    for line in lines_of(data):
        sample = sample_of(line)
        if sample is None:
            bad += 1
            continue
        ts_ns = sample.ts_ns
        if ts_ns is None:
            key = (sample.name, sample.label_text)
            again += key in seen
            if key in seen:
                continue
            seen.add(key)
            ts_ns, file.is_timed_by_file = file_ns, True
        _take(file, sample.name, sample.labels, ts_ns, sample.value)
    if bad:
        staged.add_problem(f"{name}: {bad:,} lines that are no samples were left out")
    if again:
        staged.add_problem(
            f"{name}: {again:,} samples of a second scrape were left out, as neither has a time; "
            "give one file per scrape"
        )


def _read_answer(file: _File, data: bytes) -> None:
    """An answer of query_range or query; raises ValueError."""
    answer = json.loads(data)
    result = answer.get("data", {}).get("result") if isinstance(answer, dict) else None
    if not isinstance(result, list):
        raise ValueError("data.result is no list")
    for series in result:
        labels = series.get("metric") if isinstance(series, dict) else None
        if not isinstance(labels, dict):
            continue
        texts = {str(key): str(value) for key, value in labels.items()}
        name = texts.pop("__name__", "")
        for pair in series.get("values") or [series.get("value")]:
            taken = _pair(pair)
            if taken is not None:
                _take(file, name, texts, *taken)


def _pair(pair: object) -> tuple[int, float] | None:
    """Time and value of [seconds, "value"]."""
    if not isinstance(pair, list) or len(pair) != 2:
        return None
    try:
        seconds, value = float(pair[0]), float(pair[1])
    except (TypeError, ValueError):
        return None
    return (round(seconds * 1000) * 1_000_000, value) if 0 <= seconds < 2**33 else None


def _take(file: _File, name: str, labels: Mapping[str, str], ts_ns: int, value: float) -> None:
    """One sample under our name."""
    host = _host_of(labels)
    if name == "node_cpu_seconds_total":
        mode = CPU_MODES.get(labels.get("mode", ""))
        if mode is not None:
            file.cpu[host, ts_ns, mode] += value
        return
    alias = alias_of(name)
    if alias is None:
        file.unknown[name[:80]] += 1
        return
    reason = BLANKS.get(value, "")
    if alias.true_at is not None and not reason:
        value = float(value == alias.true_at)
    device = _device_of(alias, labels)
    file.samples.add(host, device, alias.metric, ts_ns, value * alias.factor, reason)


def _host_of(labels: Mapping[str, str]) -> str:
    """Host of a sample, without the port that `instance` has; '' where no label says it."""
    text = next((labels[name] for name in _HOST_LABELS if labels.get(name)), "")
    head, colon, port = text.rpartition(":")
    return head if colon and port.isdecimal() else text


def _device_of(alias: Alias, labels: Mapping[str, str]) -> str:
    if alias.device == "gpu":
        uuid = labels.get("UUID") or labels.get("gpu_uuid") or labels.get("uuid") or ""
        return f"gpu:{uuid.removeprefix('GPU-') or labels.get('gpu', '')}"
    if alias.device == "nic":
        return f"nic:{labels.get('device', '')}/{labels.get('port', '')}"
    if alias.device in ("net", "disk"):
        return f"{alias.device}:{labels.get('device', '')}"
    return alias.device


def _add_cpu(file: _File) -> None:
    """Times of all cores together."""
    for (host, ts_ns, metric), seconds in file.cpu.items():
        file.samples.add(host, "host", metric, ts_ns, seconds)
