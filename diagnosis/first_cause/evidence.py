"""From the answers of saved queries to the first cause of an attempt's failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from diagnosis.first_cause.anchors import Episode, episode_of
from diagnosis.first_cause.decision import FirstCause, World, first_cause
from diagnosis.first_cause.lines import ENDS, LINES, PROCESSES, Line, lines_of
from diagnosis.first_cause.waited_for import waited_for
from diagnosis.first_cause.weak_causes import weak_cause

QUESTIONS = (LINES, ENDS, PROCESSES, "rank_places")


@dataclass(frozen=True)
class Judged:
    """What the lines say. `cause`: None where nothing decides."""

    cause: FirstCause | None
    episode: Episode
    num_lines: int
    settings: tuple[Line, ...]


def judged(tables: Mapping[str, pa.Table]) -> Judged:
    """Decide, from the answers of QUESTIONS."""
    lines = lines_of(tables)
    processes = tables[PROCESSES].to_pylist()
    world = _world(tables, processes)
    episode = episode_of(lines, _pids(tables, processes))
    cause = first_cause(episode, world) or waited_for(episode, world) or weak_cause(episode, world)
    settings = tuple(line for line in episode.context if _is_advice(line))
    return Judged(cause, episode, len(lines), settings)


def _is_advice(line: Line) -> bool:
    """Whether a line that caused nothing by itself shows a setting to look at."""
    return line.label is not None and line.label.advice == "fix_setting"


def _world(tables: Mapping[str, pa.Table], processes: list[dict[str, Any]]) -> World:
    hosts = {row["rank"]: row["host"] for row in tables["rank_places"].to_pylist()}
    addresses = {}
    for row in processes:
        hosts[row["rank"]] = hosts.get(row["rank"]) or row["host"]
        if row["address"] and hosts[row["rank"]]:
            addresses[row["address"]] = hosts[row["rank"]]
    return World(hosts, addresses)


def _pids(
    tables: Mapping[str, pa.Table], processes: list[dict[str, Any]]
) -> dict[tuple[str | None, int], int]:
    """Rank of each process: as the hooks recorded it, or as lines of its log say."""
    rows = [*processes, *tables[ENDS].to_pylist()]
    return {(row["host"], row["pid"]): row["rank"] for row in rows if row["pid"] is not None}
