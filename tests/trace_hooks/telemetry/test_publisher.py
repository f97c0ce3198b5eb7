"""Files of samples: whose they are, when they are written, what a full disk does."""

from __future__ import annotations

import errno
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.live.segment_check import problem_of
from trace_hooks.job.process_info import host_name
from trace_hooks.job.spool import BATCH, MOST_OF_WATCHDOG_BYTES, Batch, Spool, read_batch
from trace_hooks.schema import TABLES, SegmentName
from trace_hooks.telemetry.publisher import MOST_LINES, Publisher, Target
from trace_hooks.telemetry.sample_rows import MOST_ROWS, Row, Series

OF_HOST = Series("gpu:x", "gpu_power_watts", "host", -1)
OF_RANK = Series("process", "process_threads", "host", 5)
UNIX_NS = 1_700_000_000_000_000_000
LINE = {"ts_ns": 5, "timed": "own", "stream": "kernel", "file": "kmsg", "line": 1} | {
    "level": "",
    "label": "xid_79",
    "template": "t",
    "text": "Xid 79",
    "count": 1,
}


def row(series: Series = OF_HOST, value: float = 1.5, state: str = "value") -> Row:
    return (100, 3, series, value, state)


def written(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {p.name: pq.read_table(p).to_pylist() for p in sorted((folder / "segments").glob("*"))}


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path, attempt=2, rank=4, clock_offset_ns=UNIX_NS)


def test_rows_of_host_and_rank(target: Target) -> None:
    rows = [row(), row(OF_RANK, 8.0), row(value=math.nan, state="unreadable: EACCES – é")]
    Publisher().write(target, rows, [], now_s=1000.0)
    files = written(target.folder)
    host, rank = files.values()
    assert list(files) == [
        "host_metrics-0002-00004-60000000.parquet",
        "host_metrics-0002-00005-70000000.parquet",
    ]
    assert host[0] == {
        "attempt": 2,
        "rank": -1,
        "step": 3,
        "host": host_name(),
        "ts_ns": UNIX_NS + 100,
        "metric": "gpu_power_watts",
        "value": 1.5,
        "device": "gpu:x",
        "state": "value",
        "scope": "host",
    }
    assert host[1]["state"] == "unreadable: EACCES – é"
    assert math.isnan(host[1]["value"])
    assert [(r["rank"], r["value"]) for r in rank] == [(5, 8.0)]


def test_files_have_the_schema_and_a_server_accepts_them(target: Target) -> None:
    Publisher().write(target, [row(), row(OF_RANK)], [], 1000.0)
    for path in (target.folder / "segments").glob("*"):
        name = SegmentName.parse(path.name)
        assert name is not None
        assert pq.read_schema(path).equals(TABLES["host_metrics"].schema, check_metadata=True)
        assert problem_of(path, name) == ""


def test_rows_of_ranks_wait_longer_and_longer(target: Target) -> None:
    publisher, times_s = Publisher(), []
    for second in range(0, 700, 10):
        before = len(written(target.folder))
        publisher.write(target, [row(OF_RANK)], [], 1000.0 + second)
        times_s += [second] if len(written(target.folder)) > before else []
    assert times_s == [0, 10, 30, 70, 150, 270, 390, 510, 630]
    publisher.write(target, [], [], 1692.0, is_last=True)
    assert len(written(target.folder)) == 10


def test_numbers_go_on_where_others_were_written_or_merged_away(target: Target) -> None:
    publisher = Publisher()
    publisher.write(target, [row()], [], 1000.0)
    next((target.folder / "segments").glob("*")).unlink()
    publisher.write(target, [row()], [], 1010.0)
    Publisher().write(target, [row()], [], 1020.0)
    assert [name[-16:-8] for name in written(target.folder)] == ["60000000", "60000001"]


def test_kernel_lines_are_rows_of_the_host(target: Target) -> None:
    Publisher().write(target, [], [LINE], 1000.0)
    ((name, (found,)),) = written(target.folder).items()
    assert name == "log_lines-0002-00004-60000000.parquet"
    assert (found["rank"], found["host"], found["ts_ns"]) == (-1, host_name(), UNIX_NS + 5)


class FullSpool(Spool):
    """Takes tables of these names only; `taken`: name and rows of each."""

    def __init__(self, meeting: Path, *names: str) -> None:
        super().__init__(meeting, "telemetry")
        self.names = names
        self.taken: list[tuple[str, list[dict[str, Any]]]] = []

    def put(self, batch: Batch) -> tuple[Path, int]:
        ((name, table),) = batch.tables.items()
        if name not in self.names:
            raise OSError(errno.ENOSPC, "full")
        self.taken.append((name, table.to_pylist()))
        return self.folder, 0


def test_what_could_not_be_written_is_written_later_and_the_rest_not_again(target: Target) -> None:
    spool = FullSpool(target.folder, "host_metrics")
    publisher = Publisher(spool)
    with pytest.raises(OSError, match="full"):
        publisher.write(target, [row(value=1.0), row(OF_RANK, 2.0)], [LINE], 1000.0)
    spool.names = ("host_metrics", "log_lines")
    publisher.write(target, [row(value=3.0), row(OF_RANK, 4.0)], [], 1010.0)
    values = [[r.get("value", r.get("text")) for r in rows] for _, rows in spool.taken]
    assert values == [[1.0], [3.0], ["Xid 79"], [2.0, 4.0]]


def test_rows_of_a_rank_that_could_not_be_written_are_kept(target: Target) -> None:
    spool = FullSpool(target.folder)
    publisher = Publisher(spool)
    with pytest.raises(OSError, match="full"):
        publisher.write(target, [row(OF_RANK, 1.0)], [], 1000.0)
    spool.names = ("host_metrics",)
    publisher.write(target, [row(OF_RANK, 2.0)], [], 1010.0)
    assert [[r["value"] for r in rows] for _, rows in spool.taken] == [[1.0, 2.0]]


def test_what_is_kept_is_bounded(target: Target) -> None:
    spool = FullSpool(target.folder)
    publisher = Publisher(spool)
    others = [row(OF_RANK._replace(rank=rank)) for rank in (6, 7, 8)]
    with pytest.raises(OSError, match="full"):
        publisher.write(target, [row()] * (MOST_ROWS + 5), [LINE] * (MOST_LINES + 5), 1000.0)
    with pytest.raises(OSError, match="full"):
        publisher.write(target, [row(OF_RANK)] * (MOST_ROWS + 5) + others, [], 1000.0)
    spool.names = ("host_metrics", "log_lines")
    publisher.write(target, [], [], 1010.0)
    numbers = [len(rows) for _, rows in spool.taken]
    assert numbers == [MOST_ROWS, MOST_LINES, MOST_ROWS // 4, 1, 1, 1]


def test_of_a_disk_that_hangs_little_waits_in_memory_that_the_job_needs(target: Target) -> None:
    spool = Spool(target.folder, "telemetry")  # no collector takes from it
    publisher, refused = Publisher(spool), 0
    for turn in range(60):
        with suppress(OSError):
            publisher.write(target, [row()] * 5_000, [], 1000.0 + turn)
            continue
        refused += 1
    waiting = spool.batches(BATCH)
    assert refused > 0
    assert sum(path.stat().st_size for path in waiting) < 2 * MOST_OF_WATCHDOG_BYTES
    for path in waiting:
        path.unlink()
    publisher.write(target, [], [], 2000.0)
    (path,) = spool.batches(BATCH)
    assert read_batch(path).tables["host_metrics"].num_rows == refused * 5_000
