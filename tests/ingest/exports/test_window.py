"""What a window leaves in an export."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ingest.errors import UserError
from ingest.exports.perfetto import write_perfetto
from ingest.exports.tables import write_parquet
from ingest.exports.window import Window
from ingest.run import open_run
from tests.ingest.exports.test_perfetto import exported, whole
from tests.runs_builder import T0, US, two_rank_run


@pytest.mark.parametrize(
    ("window", "begins_us"),
    [
        (Window(ranks=(1,)), {1: [0, 10, 40, 50, 90, 100, 110, 140, 150, 190]}),
        (Window(ranks=(0,), steps=(1, 1)), {0: [100, 110, 120, 150, 190]}),
        (Window(t=(91 * US, 99 * US)), {0: [90], 1: [90]}),
    ],
)
def test_a_window_is_what_was_requested(
    window: Window, begins_us: dict[int, list[int]], tmp_path: Path
) -> None:
    two_rank_run(tmp_path / "run", num_steps=2)
    found: dict[int, list[int]] = {}
    for event in exported(tmp_path / "run", tmp_path / "out.json", window):
        found.setdefault(event["pid"], []).append(int(event["ts"]))
    assert found == begins_us
    with open_run(tmp_path / "run") as run:
        assert write_parquet(run, "spans", window, tmp_path / "a.parquet") == sum(
            map(len, begins_us.values())
        )


def test_a_window_of_time_is_on_the_aligned_clock_in_tables_too(tmp_path: Path) -> None:
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    builder.hosts = ["h0", "h1"]
    builder.rank_files()
    builder.add("clocks", 1, 0, ts_ns=T0, offset_ns=1000 * US)
    builder.publish()
    window = Window(t=(1000 * US, 1005 * US))
    with open_run(tmp_path / "run") as run:
        write_parquet(run, "spans", window, tmp_path / "a.parquet")
        write_perfetto(run, window, tmp_path / "a.json")
    assert pq.read_table(tmp_path / "a.parquet")["rank"].to_pylist() == [1]
    assert [event["pid"] for event in whole(tmp_path / "a.json")] == [1]


def test_a_window_without_spans_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    with (
        open_run(tmp_path / "run") as run,
        pytest.raises(UserError, match="has no spans in this part"),
    ):
        write_perfetto(run, Window(steps=(50, 60)), tmp_path / "out.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
