"""Rows of an index about its ranks: what each is, and when its last file arrived."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from ingest.query.manifest import Connection, FileEntry
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import RankInfo

_OF_WATCHDOG = ("host_metrics",)
"""Tables that say nothing of whether a rank lives: its host's watchdog writes them."""
_OFTEN_WRITTEN = ("heartbeats", "steps", "spans")
"""Tables of which files of several ranks are read for whose they are."""
_LONGEST_INTERVAL_S = 3600.0
_COORDS = ("pp", "dp", "cp", "tp", "ep")
_ARRIVALS = pa.schema([(name, pa.int64()) for name in ("attempt", "rank", "arrived_ns")])
_RANKS = pa.schema(
    [("attempt", pa.int64()), ("rank", pa.int64()), ("world_size", pa.int64())]
    + [("host", pa.string()), ("device", pa.string()), ("pid", pa.int64())]
    + [("started_ns", pa.int64()), ("ended_ns", pa.int64())]
    + [("status", pa.string()), ("error", pa.string())]
    + [(axis, pa.int64()) for axis in _COORDS]
    + [("publish_every_ns", pa.int64())]
)


def store_ranks(connection: Connection, ranks: Iterable[RankInfo], problems: list[str]) -> None:
    """Replace the rows of all ranks, and the problems of their files."""
    connection.execute("DELETE FROM problems WHERE source = 'ranks'")
    for text in problems:
        connection.execute("INSERT INTO problems VALUES ('ranks', ?)", [text])
    connection.execute("DELETE FROM ranks")
    rows = pa.Table.from_pylist([_rank_row(info) for info in ranks], schema=_RANKS)
    connection.register("fresh_ranks", rows)
    connection.execute("INSERT INTO ranks SELECT * FROM fresh_ranks")
    connection.unregister("fresh_ranks")


def store_arrivals(
    connection: Connection,
    entries: Sequence[FileEntry],
    now_ns: int,
    file_of: Callable[[str], Path],
    is_first: bool = False,
) -> None:
    """Note when the newest file of each rank arrived, by this machine's clock, never by the ranks'.

    That is now; for files that lay in the folder before the indexer's first pass, it is when they
    were written. A file of several ranks, as of a bundle, counts for those that have rows in it.
    `file_of`: the file of a path in the manifest.
    """
    latest: dict[tuple[int, int], int] = {}

    def note(attempt: int, rank: int, arrived_ns: int) -> None:
        latest[attempt, rank] = max(latest.get((attempt, rank), 0), arrived_ns)

    of_several: dict[str, int] = {}
    for entry in entries:
        if entry.problem or entry.table_name in _OF_WATCHDOG:
            continue
        is_of_one = entry.rank_min == entry.rank_max
        if not is_of_one and not _shows_life(entry):
            continue
        file, arrived_ns = file_of(entry.path), now_ns
        if is_first:
            try:
                arrived_ns = min(now_ns, file.stat().st_mtime_ns)
            except OSError:
                continue
        if is_of_one:
            note(entry.attempt, entry.rank_min, arrived_ns)
        else:
            of_several[str(file)] = arrived_ns
    for attempt, rank, name in _ranks_of(connection, list(of_several)):
        note(attempt, rank, of_several[name])
    columns = {
        "attempt": [attempt for attempt, _ in latest],
        "rank": [rank for _, rank in latest],
        "arrived_ns": list(latest.values()),
    }
    connection.register("fresh_arrivals", pa.table(columns, schema=_ARRIVALS))
    connection.execute(
        "INSERT INTO arrivals SELECT * FROM fresh_arrivals ON CONFLICT DO UPDATE"
        " SET arrived_ns = greatest(arrived_ns, excluded.arrived_ns)"
    )
    connection.unregister("fresh_arrivals")


def _shows_life(entry: FileEntry) -> bool:
    """Whether a file of several ranks shows that those with rows in it lived when it was written;
    a merged one does not.
    """
    return entry.table_name in _OFTEN_WRITTEN and not entry.tier


def _ranks_of(connection: Connection, files: list[str]) -> list[tuple[int, int, str]]:
    """(attempt, rank, file) of the ranks with rows in these files."""
    if not files:
        return []
    return connection.execute(
        "SELECT DISTINCT attempt, rank, filename"
        " FROM read_parquet($files, hive_partitioning = false, filename = true)",
        {"files": files},
    ).fetchall()


def _coords(info: RankInfo) -> dict[str, int]:
    """Coordinates of a rank: as recorded, else by its layout, else unknown."""
    recorded = info.get("coords")
    if recorded:
        return recorded
    layout = info.get("layout")
    if not layout:
        return {}
    try:
        return ParallelLayout.from_json(layout).coords(info["rank"])
    except ValueError:
        return {}


def _rank_row(info: RankInfo) -> dict[str, object]:
    end = info.get("end") or {}
    coords = _coords(info)
    return {
        **{name: info.get(name) for name in ("attempt", "rank", "world_size", "host", "device")},
        "pid": info.get("pid"),
        "started_ns": info.get("started_ns"),
        "ended_ns": end.get("ts_ns"),
        "status": end.get("status"),
        "error": end.get("error"),
        **{axis: coords.get(axis) for axis in _COORDS},
        "publish_every_ns": _publish_every_ns(info),
    }


def _publish_every_ns(info: RankInfo) -> int:
    """How much later than written rows may reach the run folder, as the rank says; else 0."""
    hooks = info.get("hooks")
    seconds = hooks.get("publish_every_s") if isinstance(hooks, dict) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return 0
    return int(seconds * 1e9) if 0 <= seconds <= _LONGEST_INTERVAL_S else 0
