"""Merging: every row exactly once, before, after and at any point in between."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.index import compaction, engine
from ingest.index.indexer import Indexer
from ingest.run import open_run
from tests.frame_runs import frame_row
from tests.runs_builder import T0, RunBuilder, two_rank_run
from trace_hooks.schema import SegmentName

NUM_ROUNDS = 7


@pytest.fixture
def eager(monkeypatch):
    monkeypatch.setattr(compaction, "FIRST_FAN_IN", 4)
    monkeypatch.setattr(compaction, "FAN_IN", 2)


def grow(builder, number):
    """One more segment of two ranks, each span with a begin of its own."""
    for rank in range(2):
        for i in range(3):
            builder.span(rank, number, "forward", number * 100 + i, number * 100 + i + 1)
    builder.publish()


def spans(run):
    rows = run.sql("SELECT rank, ts_ns, step FROM spans ORDER BY ALL").to_pylist()
    return [tuple(row.values()) for row in rows]


def usable_files(run):
    return run.index_rows("SELECT table_name, num_rows FROM files WHERE problem IS NULL")


def truth(rounds=NUM_ROUNDS):
    return sorted(
        (rank, T0 + (number * 100 + i) * 1000, number)
        for rank in range(2)
        for number in range(rounds)
        for i in range(3)
    )


def test_merging_keeps_every_row_once(tmp_path, eager):
    builder = RunBuilder(tmp_path / "run", 2)
    with Indexer(builder.folder) as indexer:
        indexer.compaction.grace_s = 0.0
        merged = 0
        for number in range(NUM_ROUNDS):
            grow(builder, number)
            merged += indexer.refresh().merged_files
        assert merged > 0
    with open_run(builder.folder) as run:
        assert spans(run) == truth()
        assert len(usable_files(run)) < NUM_ROUNDS
    left = list((builder.folder / "segments").iterdir())
    assert len(left) < 4


def test_merged_files_are_sorted_by_rank_and_time_and_typed_as_before(tmp_path, eager):
    builder = RunBuilder(tmp_path / "run", 2)
    with Indexer(builder.folder) as indexer:
        for number in reversed(range(4)):
            grow(builder, number)
        indexer.refresh()
    (path,) = (builder.folder / "compacted").iterdir()
    rows = pq.read_table(path)
    keys = list(zip(rows["rank"].to_pylist(), rows["ts_ns"].to_pylist(), strict=True))
    assert keys == sorted(keys)
    segment = pq.read_schema(next((builder.folder / "segments").iterdir()))
    assert rows.schema.remove_metadata() == segment.remove_metadata()


def test_inputs_stay_for_the_grace_period_and_are_not_read(tmp_path, eager):
    builder = RunBuilder(tmp_path / "run", 2)
    with Indexer(builder.folder) as indexer:
        for number in range(4):
            grow(builder, number)
        indexer.refresh()
        assert len(list((builder.folder / "segments").iterdir())) == 8
        indexer.compaction.grace_s = 0.0
        indexer.refresh()
        assert len(list((builder.folder / "segments").iterdir())) == 0
    with open_run(builder.folder) as run:
        assert spans(run) == truth(4)


def test_without_an_index_inputs_next_to_their_merged_file_are_not_counted_twice(tmp_path, eager):
    builder = RunBuilder(tmp_path / "run", 2)
    with Indexer(builder.folder) as indexer:  # no grace has passed: everything is still there
        for number in range(NUM_ROUNDS):
            grow(builder, number)
            indexer.refresh()
    shutil.rmtree(builder.folder / "index")
    with open_run(builder.folder) as run:
        assert spans(run) == truth()


def test_killed_between_publishing_a_merged_file_and_the_manifest(tmp_path, eager, monkeypatch):
    builder = RunBuilder(tmp_path / "run", 2)
    for number in range(4):
        grow(builder, number)

    class Killed(BaseException):
        pass

    def die(*_):
        raise Killed

    with Indexer(builder.folder) as indexer:
        monkeypatch.setattr(compaction, "read_entry", die)
        with pytest.raises(Killed):
            indexer.refresh()
    monkeypatch.undo()
    assert len(list((builder.folder / "compacted").iterdir())) == 1
    with open_run(builder.folder) as run:
        assert spans(run) == truth(4)


def test_a_closed_run_becomes_few_files_and_rollups_stay(tmp_path, monkeypatch):
    builder = two_rank_run(tmp_path / "run", num_steps=4)
    with open_run(builder.folder) as run:
        before = run.sql("SELECT * FROM step_rollup ORDER BY ALL").to_pylist()
        summary = run.ask("steps").to_pylist()
    monkeypatch.setattr(compaction, "CLOSED_S", -1.0)
    with Indexer(builder.folder) as indexer:
        indexer.refresh()
    with open_run(builder.folder) as run:
        tables = run.sql("SELECT table_name, count(*) AS n FROM files GROUP BY 1").to_pylist()
        assert {row["n"] for row in tables} == {1}
        assert run.sql("SELECT * FROM step_rollup ORDER BY ALL").to_pylist() == before
        assert run.ask("steps").to_pylist() == summary


def test_a_finished_run_of_many_segments_is_merged_few_at_a_time(tmp_path, monkeypatch):
    """As where a run is looked at for the first time: each file that is open takes memory."""
    builder = RunBuilder(tmp_path / "run", 2)
    for number in range(NUM_ROUNDS):
        grow(builder, number)
    monkeypatch.setattr(compaction, "CLOSED_S", -1.0)
    monkeypatch.setattr(compaction, "MOST_SEGMENTS", 3)
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    merged = []
    publish = engine.publish_merged

    def noted(table, paths, *rest):
        merged.append([path.parent.name for path in paths])
        publish(table, paths, *rest)

    monkeypatch.setattr(engine, "publish_merged", noted)
    with Indexer(builder.folder) as indexer:
        while indexer.refresh().merged_files:
            pass
    sizes = [len(folders) for folders in merged]
    assert max(len(f) for f in merged if set(f) == {"segments"}) == 3
    assert max(len(f) for f in merged if "compacted" in f) == 2
    assert sum(sizes) > NUM_ROUNDS
    with open_run(builder.folder) as run:
        assert spans(run) == truth()
        assert len(run.snapshot.files("spans")) == 1


def test_an_hour_of_eight_ranks_stays_under_500_files(monkeypatch):
    """One-second segments of 5 tables and 8 ranks, 3,600 of each, counted while they arrive.

    Files are stood in for by manifest rows; the policy that picks what to merge is the real one.
    """
    policy = compaction.Compaction.__new__(compaction.Compaction)
    monkeypatch.setattr(policy, "_is_closed", lambda _: False)
    entries: list[compaction.FileEntry] = []
    most = 0
    for second in range(3600):
        entries += [_entry(f"s{second}-{rank}", second, 300, 0) for rank in range(8)]
        for batch in policy._batches(entries):
            tier = max(entry.tier for entry in batch) + 1
            gone = {entry.path for entry in batch}
            entries = [entry for entry in entries if entry.path not in gone]
            rows = sum(entry.num_rows for entry in batch)
            entries.append(_entry(f"m{second}", batch[0].step_min, rows, tier))
        most = max(most, len(entries))
    assert 5 * most < 500
    assert sum(entry.num_rows for entry in entries) == 3600 * 8 * 300


def _entry(path, second, rows, tier):
    return compaction.FileEntry(
        path, "spans", 0, 0, 7, second, second, second, second, rows, 1, "1.0", tier
    )


def test_a_damaged_segment_does_not_stop_merging(tmp_path, eager):
    builder = RunBuilder(tmp_path / "run", 2)
    with Indexer(builder.folder) as indexer:
        for number in range(3):
            grow(builder, number)
        indexer.refresh(merge=False)
        path = builder.folder / "segments" / str(SegmentName("spans", 0, 1, 2))
        path.write_bytes(path.read_bytes()[:200])
        indexer.refresh()
        indexer.refresh()
    with open_run(builder.folder) as run:
        assert len(run.problems) == 1
        assert spans(run) == [row for row in truth(3) if (row[0], row[2]) != (1, 2)]


@pytest.mark.parametrize(
    ("name", "value"), [("depth", None), ("peer", 1 << 40)], ids=["NULL", "too large"]
)
def test_a_segment_with_impossible_values_does_not_stop_merging(tmp_path, eager, name, value):
    """Nor does it keep what comes after it from being published."""
    builder = RunBuilder(tmp_path / "run", 2)
    for number in range(2):
        grow(builder, number)
    path = builder.folder / "segments" / str(SegmentName("spans", 0, 1, 1))
    rows = pq.read_table(path)
    column = pa.array([value] * rows.num_rows, pa.int64())
    pq.write_table(rows.set_column(rows.column_names.index(name), name, column), path)
    with Indexer(builder.folder) as indexer:
        indexer.refresh()
        grow(builder, 2)
        indexer.refresh()
    with open_run(builder.folder, refresh=False) as run:
        (problem,) = run.problems
        assert f"{path.name} was set aside" in problem
        assert spans(run) == [row for row in truth(3) if (row[0], row[2]) != (1, 1)]


@pytest.mark.parametrize("merge", [False, True])
def test_files_of_an_older_minor_lack_nullable_columns(tmp_path, eager, merge):
    builder = RunBuilder(tmp_path / "run", 2)
    for number in range(2):
        grow(builder, number)
    path = builder.folder / "segments" / str(SegmentName("spans", 0, 0, 0))
    pq.write_table(pq.read_table(path).drop_columns(["args"]), path)
    with Indexer(builder.folder) as indexer:
        indexer.refresh(merge=merge)
    with open_run(builder.folder, refresh=False) as run:
        assert run.problems == []
        assert spans(run) == truth(2)
        assert run.sql("SELECT count(args) AS n FROM spans").to_pylist() == [{"n": 0}]


def test_merging_ends_when_its_time_is_over_and_goes_on_in_the_next_pass(tmp_path, eager):
    builder = RunBuilder(tmp_path / "run", 2)
    for number in range(4):
        grow(builder, number)
    with Indexer(builder.folder) as indexer:
        assert indexer.refresh(merge_s=0.0).merged_files == 0
        assert indexer.refresh(merge_s=60.0).merged_files > 0
    with open_run(builder.folder) as run:
        assert spans(run) == truth(4)


class OneMergeLater:
    """A clock that is an hour later after each merge."""

    time, time_ns = staticmethod(time.time), staticmethod(time.time_ns)

    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        return self.now_s


def test_no_table_waits_for_ever_where_time_does_not_suffice_for_all(tmp_path, eager, monkeypatch):
    clock, publish_merged = OneMergeLater(), engine.publish_merged

    def publish(*args):
        clock.now_s += 3600.0
        publish_merged(*args)

    monkeypatch.setattr(compaction, "time", clock)
    monkeypatch.setattr(engine, "publish_merged", publish)
    builder = RunBuilder(tmp_path / "run", 8)
    with Indexer(builder.folder) as indexer:
        for step in range(12):
            for rank in range(8):
                builder.span(rank, step, "forward", step, step + 1)
                builder.add("heartbeats", rank, step, ts_ns=T0 + step)
            builder.publish()
            assert indexer.refresh(merge_s=1.0).merged_files <= compaction.MOST_SEGMENTS
        left = Counter(entry.table_name for entry in indexer.database.manifest.entries())
    assert max(left.values()) <= 5 * 8, left  # of 12 * 8 each
    with open_run(builder.folder) as run:
        assert run.sql("SELECT count(*) AS n FROM heartbeats").to_pylist() == [{"n": 96}]


def test_files_that_were_merged_away_are_forgotten(tmp_path, eager):
    builder = RunBuilder(tmp_path / "run", 2)
    with Indexer(builder.folder) as indexer:
        indexer.compaction.grace_s = 0.0
        for number in range(6):
            grow(builder, number)
            indexer.refresh()
        indexer.refresh()
        on_disk = {
            f"{folder}/{file.name}"
            for folder in ("segments", "compacted")
            for file in (builder.folder / folder).glob("*.parquet")
        }
        assert indexer.database.known_paths == on_disk
    with open_run(builder.folder) as run:
        assert spans(run) == truth(6)


def test_a_merged_file_names_what_it_replaces_and_no_other(tmp_path, eager):
    """Also what its inputs replaced, as long as that is there; nothing of other tables or tiers."""
    builder = RunBuilder(tmp_path / "run", 2)
    with Indexer(builder.folder) as indexer:
        for number in range(12):
            grow(builder, number)
            indexer.refresh()
    segments = {f"segments/{file.name}" for file in (builder.folder / "segments").iterdir()}
    lists = []
    for file in (builder.folder / "compacted").glob("*.parquet"):
        _, named = compaction.read_entry(builder.folder, f"compacted/{file.name}", 1)
        lists.append(named)
        table = file.name.partition("-")[0]
        assert named
        assert {path.partition("/")[2].partition("-")[0] for path in named} == {table}
        assert len(named) == len(set(named))
    assert any(  # one of the second tier: what the first tier replaced is still there
        any(path.startswith("compacted/") for path in named) and segments & set(named)
        for named in lists
    )


def test_files_of_many_bytes_are_merged_no_further(tmp_path, monkeypatch):
    """Frames have few rows of many bytes: merged without end, they would not fit into memory."""
    builder = RunBuilder(tmp_path / "run", 1)
    chance = random.Random(5)
    for step in range(8):
        builder.add("frames", 0, step, **frame_row(chance.randbytes(20_000), T0 + step))
        builder.publish()
    monkeypatch.setattr(compaction, "CLOSED_S", -1.0)
    monkeypatch.setattr(compaction, "BYTES_PER_FILE", 70_000)
    with Indexer(builder.folder) as indexer:
        while indexer.refresh().merged_files:
            pass
    with open_run(builder.folder) as run:
        files = [row for row in usable_files(run) if row["table_name"] == "frames"]
        assert sorted(row["num_rows"] for row in files) == [2, 2, 2, 2]
        table = run.sql("SELECT step FROM frames ORDER BY step", with_content=True)
        assert table.to_pydict() == {"step": list(range(8))}
