"""From the answers of saved queries to the first cause of an attempt's failure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from diagnosis.first_cause.anchors import Episode, episode_of
from diagnosis.first_cause.cause import FirstCause, World
from diagnosis.first_cause.decision import doubtful_cause, first_cause, logged_cause
from diagnosis.first_cause.handled import Survival
from diagnosis.first_cause.kernel_lines import of_this_job
from diagnosis.first_cause.lines import ENDS, LINES, PROCESSES, Line, lines_of
from diagnosis.first_cause.placing import hosts_of_ranks, placed
from diagnosis.first_cause.waited_for import waited_for
from diagnosis.first_cause.weak_causes import weak_cause

PROGRESS = "log_progress"
LOOKS, SIGNS = "rank_looks", "last_signs"
QUESTIONS = (LINES, ENDS, PROCESSES, PROGRESS, "rank_places", LOOKS, SIGNS)


@dataclass(frozen=True)
class Judged:
    """What the lines say. `cause`: None where nothing decides."""

    cause: FirstCause | None
    episode: Episode
    num_lines: int
    settings: tuple[Line, ...]
    world: World


def judged(tables: Mapping[str, pa.Table]) -> Judged:
    """Decide, from the answers of QUESTIONS."""
    found = lines_of(tables)
    processes = tables[PROCESSES].to_pylist()
    hosts = {line.host for line in found} | {row["host"] for row in processes}
    lines = placed(found, _pids(tables, processes), len(hosts - {None}))
    of_ranks = [*tables[ENDS].to_pylist(), *tables[LOOKS].to_pylist()]
    known_hosts = {row["host"] for row in of_ranks if row["pid"] is not None}
    lines = of_this_job(lines, tables[SIGNS].to_pylist(), known_hosts)
    world = _world(tables, processes, lines)
    episode = episode_of(lines, _survival(tables))
    cause = (
        first_cause(episode, world)
        or waited_for(episode, world)
        or weak_cause(episode, world)
        or logged_cause(episode, world)
        or doubtful_cause(episode, world)
    )
    settings = tuple(line for line in episode.context if _is_advice(line))
    return Judged(cause, episode, len(lines), settings, world)


def _is_advice(line: Line) -> bool:
    """Whether a line that caused nothing by itself shows a setting to look at."""
    return line.label is not None and line.label.advice == "fix_setting"


def _world(
    tables: Mapping[str, pa.Table], processes: list[dict[str, Any]], lines: list[Line]
) -> World:
    places = tables["rank_places"].to_pylist()
    is_known = any((row["world_size"] or 0) > 0 for row in places) or len(places) > 1
    hosts = {row["rank"]: row["host"] for row in places if is_known}
    addresses = {}
    for row in processes:
        hosts[row["rank"]] = hosts.get(row["rank"]) or row["host"]
        host = row["host"] or hosts[row["rank"]]
        if row["address"] and host:
            addresses[row["address"]] = host
    others = frozenset(line.host for line in lines if line.host)
    num_hosts = max((row["num_hosts"] for row in tables[LINES].to_pylist()), default=0)
    return World(hosts, addresses, hosts_of_ranks(lines), others, num_hosts)


def _survival(tables: Mapping[str, pa.Table]) -> Survival:
    """Until when steps went on."""
    rows = tables[PROGRESS].to_pylist()
    times = [float(row["ts_ns"]) for row in rows if row["ts_ns"] is not None]
    lines: dict[str, int] = {}
    for row in rows:
        lines[row["file"]] = max(lines.get(row["file"], -1), row["line"])
    return Survival(max(times, default=-math.inf), lines)


def _pids(
    tables: Mapping[str, pa.Table], processes: list[dict[str, Any]]
) -> dict[tuple[str | None, int], int]:
    """Rank of each process: as the hooks recorded it, or as lines of its log say."""
    rows = [*processes, *tables[ENDS].to_pylist(), *tables[LOOKS].to_pylist()]
    return {(row["host"], row["pid"]): row["rank"] for row in rows if row["pid"] is not None}
