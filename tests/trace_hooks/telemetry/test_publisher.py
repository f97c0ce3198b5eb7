"""Files of samples: whose they are, when they are written, what a full disk does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.live.segment_check import problem_of
from trace_hooks.job.process_info import host_name
from trace_hooks.schema import TABLES, SegmentName
from trace_hooks.telemetry.publisher import Publisher, Target
from trace_hooks.telemetry.sample_rows import MOST_ROWS, Row, SampleRows, Series

OF_HOST = Series("gpu:x", "gpu_power_watts", "host", -1)
OF_RANK = Series("process", "process_threads", "host", 5)
UNIX_NS = 1_700_000_000_000_000_000


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
    line = {"ts_ns": 5, "timed": "own", "stream": "kernel", "file": "kmsg", "line": 1}
    line |= {"level": "", "label": "xid_79", "template": "t", "text": "Xid 79", "count": 1}
    Publisher().write(target, [], [line], 1000.0)
    ((name, (found,)),) = written(target.folder).items()
    assert name == "log_lines-0002-00004-60000000.parquet"
    assert (found["rank"], found["host"], found["ts_ns"]) == (-1, host_name(), UNIX_NS + 5)


def test_rows_that_could_not_be_written_come_first_and_are_bounded() -> None:
    rows = SampleRows()
    rows.add(row(value=2.0))
    rows.put_back([row(value=1.0)])
    assert [r[3] for r in rows.take()] == [1.0, 2.0]
    rows.put_back([row()] * (MOST_ROWS + 5))
    assert len(rows.take()) == MOST_ROWS
