"""The collector: rows of all ranks in one file, when it is time, whatever happens to a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from errno import ESTALE
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.runs.viewers import Viewers as Pages
from tests.trace_hooks.watchdog.on_host import ring_in
from tests.trace_hooks.watchdog.spooled import batch, published
from tests.waiting import wait_until
from trace_hooks.job import handover
from trace_hooks.job.handover import PUBLISH_NOW, HandoverWriter
from trace_hooks.job.spool import (
    BATCH,
    TAKEN,
    Destination,
    Spool,
    number_of,
    taken_for,
    unpublished_bundle,
)
from trace_hooks.recording.segment_writer import SegmentWriter
from trace_hooks.schema.bundles import BundleName, write_bundle
from trace_hooks.watchdog import collector as module
from trace_hooks.watchdog.collector import FIRST_PAUSE_S, IDLE_S, Collector
from trace_hooks.watchdog.collector_thread import CollectorThread
from trace_hooks.watchdog.viewers import LOOK_S, WATCHED_FOR_S, Viewers
from trace_hooks.watchdog.watchdog import remove_files, remove_leftovers


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "segments").mkdir(parents=True)
    return tmp_path / "run"


def bundles(run: Path) -> list[Path]:
    return sorted((run / "segments").glob("bundle-*.zip"))


class Seconds:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    clock = Seconds()
    monkeypatch.setattr(module.time, "monotonic", clock.monotonic)
    return clock


def test_ranks_share_a_file_and_the_spool_is_empty_then(tmp_path: Path, run: Path) -> None:
    ranks = [Spool(tmp_path, name) for name in ("1-a", "2-b")]
    for number, spool in enumerate(ranks):
        spool.put(batch(run, number + 3, number))
        spool.put(batch(run, number + 3, number + 10))
    Collector(tmp_path).turn()
    assert published(run) == [0, 1, 10, 11]
    (path,) = bundles(run)
    assert path.name.startswith("bundle-0000-00003-")
    assert not list(ranks[0].folder.iterdir())


def test_nobody_looks_so_rows_wait(tmp_path: Path, run: Path, seconds: Seconds) -> None:
    spool, collector = Spool(tmp_path, "1-a"), Collector(tmp_path)
    spool.put(batch(run, 0, 0))
    collector.turn()  # the first rows at once: a run is to be seen
    spool.put(batch(run, 0, 1))
    seconds.now += IDLE_S - 0.1
    collector.turn()
    assert published(run) == [0]
    seconds.now += 0.2
    collector.turn()
    assert published(run) == [0, 1]


def test_somebody_looks_so_rows_do_not_wait(tmp_path: Path, run: Path, seconds: Seconds) -> None:
    spool, collector = Spool(tmp_path, "1-a"), Collector(tmp_path)
    spool.put(batch(run, 0, 0))
    collector.turn()
    (run / "watched").touch()
    spool.put(batch(run, 0, 1))
    seconds.now += LOOK_S
    collector.turn()
    assert published(run) == [0, 1]
    spool.put(batch(run, 0, 2))
    seconds.now += 0.1
    collector.turn()
    assert published(run) == [0, 1]
    seconds.now += 0.7
    collector.turn()
    assert published(run) == [0, 1, 2]


def test_the_server_touches_the_file_that_is_looked_at(run: Path) -> None:
    viewers = Viewers()
    viewers.look_in(run)
    Pages(run).look("finished")
    assert not viewers.are_there(0.0)
    Pages(run).look("running")
    assert viewers.are_there(LOOK_S)


def test_an_old_mark_is_no_viewer(run: Path) -> None:
    (run / "watched").touch()
    viewers = Viewers()
    viewers.look_in(run)
    assert not viewers.are_there(0.0)
    os.utime(run / "watched", (5, 5))  # a clock that is behind
    assert viewers.are_there(LOOK_S)
    assert not viewers.are_there(LOOK_S + WATCHED_FOR_S)


def test_much_is_published_at_once(
    tmp_path: Path, run: Path, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, collector = Spool(tmp_path, "1-a"), Collector(tmp_path)
    spool.put(batch(run, 0, 0))
    collector.turn()
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    spool.put(batch(run, 0, 1))
    collector.turn()
    assert published(run) == [0, 1]


def test_a_rank_that_ends_makes_it_publish(tmp_path: Path, run: Path, seconds: Seconds) -> None:
    spool, collector = Spool(tmp_path, "1-a"), Collector(tmp_path)
    spool.put(batch(run, 0, 0))
    collector.turn()
    spool.put(batch(run, 0, 1))
    (spool.folder / PUBLISH_NOW).touch()
    collector.turn()
    assert published(run) == [0, 1]


def test_runs_and_attempts_have_files_of_their_own(tmp_path: Path, run: Path) -> None:
    spool, other = Spool(tmp_path, "1-a"), tmp_path / "other"
    other.mkdir()
    spool.put(batch(run, 0, 0))
    spool.put(batch(other, 0, 1))
    Collector(tmp_path).turn()
    assert published(run) == [0]
    assert published(other) == [1]


def test_what_cannot_be_written_waits_and_is_tried_again(tmp_path: Path, seconds: Seconds) -> None:
    run = tmp_path / "run"
    run.write_text("in the way")
    spool, collector = Spool(tmp_path, "1-a"), Collector(tmp_path)
    spool.put(batch(run, 0, 0))
    collector.turn()
    assert len(spool.own(BATCH)) == 1
    run.unlink()
    run.mkdir()
    collector.turn()  # paused
    assert not list(run.iterdir())
    seconds.now += 1.0
    collector.turn()
    assert published(run) == [0]


def test_a_run_folder_that_only_the_ranks_see_is_left_to_them(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "1-a")
    path, _ = spool.put(batch(tmp_path / "elsewhere", 0, 0))
    Collector(tmp_path).turn()
    assert spool.own(BATCH) == [path]
    assert not (tmp_path / "elsewhere").exists()


def test_a_failed_bundle_gives_its_batches_back(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, collector = Spool(tmp_path, "1-a"), Collector(tmp_path)
    path, _ = spool.put(batch(run, 0, 0))

    def fails(*_: object) -> int:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_bundle", fails)
        collector.turn()
    assert spool.own(BATCH) == [path]
    assert not list((run / "segments").iterdir())
    Collector(tmp_path).turn()
    assert published(run) == [0]


def test_a_damaged_batch_does_not_hold_up_the_others(tmp_path: Path, run: Path) -> None:
    spool = Spool(tmp_path, "1-a")
    spool.put(batch(run, 0, 0))[0].write_bytes(b"{}\nnothing")
    spool.put(batch(run, 0, 1))
    Collector(tmp_path).turn()
    assert published(run) == [1]
    assert len(spool.own(".damaged")) == 1


@pytest.mark.parametrize("is_published", [False, True])
def test_the_next_collector_settles_what_the_last_one_had_taken(
    tmp_path: Path, run: Path, is_published: bool
) -> None:
    spool = Spool(tmp_path, "1-a")
    path, _ = spool.put(batch(run, 0, 7))
    path.rename(taken_for(path, 99))
    if not is_published:
        unpublished_bundle(run, 99).touch()
    collector = CollectorThread(tmp_path)
    collector.start()
    if is_published:
        wait_until(lambda: not spool.own(TAKEN, BATCH))
    else:
        wait_until(lambda: published(run) == [7])
    collector.stop()
    assert not spool.has_collector()
    assert published(run) == ([] if is_published else [7])
    assert not unpublished_bundle(run, 99).exists()


def test_what_a_job_left_that_was_killed_as_a_whole_is_published(tmp_path: Path, run: Path) -> None:
    rings = tmp_path / "rings"
    left, mine = rings / "left", rings / "mine"
    ring_in(left, 1, hours_old=2)
    mine.mkdir()
    spool = Spool(left, "1-a")
    paths = [spool.put(batch(run, 0, number))[0] for number in range(3)]
    paths[0].rename(taken_for(paths[0], 99))
    unpublished_bundle(run, 99).touch()
    spool.put(batch(run, 0, 9))[0].rename(spool.folder / "1-a.7.tmp")  # half-written
    claimed = spool.claim(paths[1])
    assert claimed is not None
    os.utime(claimed, (5, 5))
    os.utime(left, (5, 5))
    remove_leftovers(mine)
    assert published(run) == [0, 1, 2]
    assert not left.exists()


@pytest.mark.parametrize("left_there", ["another run", "an empty folder", "nothing"])
def test_leftovers_do_not_make_the_folder_of_a_deleted_run_again(
    tmp_path: Path, left_there: str
) -> None:
    """Where the folder of runs is gone or empty, a disk may be away: they wait for it."""
    is_away = left_there != "another run"
    run = tmp_path / "runs" / "run"
    (run / "segments").mkdir(parents=True)
    left, mine = tmp_path / "rings" / "left", tmp_path / "rings" / "mine"
    ring_in(left, 1, hours_old=2)
    mine.mkdir()
    spool = Spool(left, "1-a")
    spool.put(batch(run, 0, 0))
    taken = spool.put(batch(run, 0, 1))[0]
    taken.rename(taken_for(taken, 99))
    unpublished_bundle(run, 99).touch()
    claimed = spool.claim(spool.put(batch(run, 0, 2))[0])
    assert claimed is not None
    os.utime(claimed, (5, 5))
    os.utime(left, (5, 5))
    shutil.rmtree(run.parent if left_there == "nothing" else run)
    if not is_away:
        (run.parent / "other").mkdir()
    remove_leftovers(mine)
    assert not run.exists()
    assert run.parent.exists() == (left_there != "nothing")
    assert left.exists() == is_away
    assert len(list((left / "spool").glob("1-a.*"))) == (3 if is_away else 0)


def test_leftovers_that_another_job_publishes_are_left_to_it(tmp_path: Path, run: Path) -> None:
    left, mine = tmp_path / "rings" / "left", tmp_path / "rings" / "mine"
    ring_in(left, 1, hours_old=2)
    mine.mkdir()
    other = Spool(left, "collector")
    other.become_collector()
    other.put(batch(run, 0, 0))
    os.utime(left, (5, 5))
    remove_leftovers(mine)
    assert (left / "collector.lock").exists(), "whoever comes next would publish, too"
    other.close()
    remove_leftovers(mine)
    assert published(run) == [0]
    assert not left.exists()


def test_a_watchdog_that_ends_before_its_collector_leaves_the_lock_to_it(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk hangs, and after a SIGTERM ranks may live longer than their watchdog."""
    monkeypatch.setattr(handover, "START_S", 0.0)
    ranks = [Spool(tmp_path, name) for name in ("1-a", "2-b")]
    for number, spool in enumerate(ranks):
        spool.put(batch(run, number, number))
    collector, where = Collector(tmp_path), Destination(run, 0, 0)
    collector._spool.become_collector()

    def write_late(file: IO[bytes], name: BundleName, tables: Mapping[str, pa.Table]) -> int:
        remove_files(tmp_path)
        HandoverWriter(SegmentWriter(run, 0, 0), ranks[0], where).check()
        return write_bundle(file, name, tables)

    monkeypatch.setattr(module, "write_bundle", write_late)
    collector.turn()
    assert published(run) == [0, 1]


def test_no_more_than_a_portion_is_in_memory(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    spool = Spool(tmp_path, "1-a")
    for number in range(3):
        spool.put(batch(run, 0, number))
    Collector(tmp_path).turn()
    assert len(bundles(run)) == 3
    assert published(run) == [0, 1, 2]


def test_rows_of_a_table_are_sorted_by_rank(tmp_path: Path, run: Path) -> None:
    spool = Spool(tmp_path, "1-a")
    numbers = [number_of(spool.put(batch(run, rank, rank))[0]) for rank in (5, 2, 9)]
    assert numbers == sorted(set(numbers))
    Collector(tmp_path).turn()
    import io
    import zipfile

    with zipfile.ZipFile(bundles(run)[0]) as archive:
        (name,) = archive.namelist()
        rows = pq.read_table(io.BytesIO(archive.read(name)))
    assert rows.column("rank").to_pylist() == [2, 5, 9]


STALE = OSError(ESTALE, "stale file handle")


def tell_nothing_of(patched: pytest.MonkeyPatch, name: str, error: OSError) -> None:
    """Have the file server fail for files that are named so; exists as in Python 3.14."""
    stat = os.stat

    def fails(path: Any, *args: Any, **named: Any) -> os.stat_result:
        if not isinstance(path, int) and Path(path).name.startswith(name):
            raise error
        return stat(path, *args, **named)

    patched.setattr(os, "stat", fails)
    patched.setattr(Path, "exists", os.path.exists)


def test_leftovers_of_a_run_that_cannot_be_looked_at_are_not_lost(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, mine = tmp_path / "rings" / "left", tmp_path / "rings" / "mine"
    ring_in(left, 1, hours_old=2)
    mine.mkdir()
    Spool(left, "1-a").put(batch(run, 0, 0))
    os.utime(left, (5, 5))
    with monkeypatch.context() as patched:
        tell_nothing_of(patched, run.name, STALE)
        remove_leftovers(mine)
    remove_leftovers(mine)
    assert published(run) == [0]


@pytest.mark.parametrize("error", [STALE, MemoryError()])
def test_no_row_is_lost_whatever_fails_while_a_bundle_is_written(
    tmp_path: Path,
    run: Path,
    seconds: Seconds,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    spool, collector = Spool(tmp_path, "1-a"), Collector(tmp_path)
    spool.put(batch(run, 0, 0))

    def fails(*_: object) -> int:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_bundle", fails)
        if isinstance(error, OSError):  # the server is away
            tell_nothing_of(patched, ".bundle", error)
        with suppress(MemoryError):  # the guard's, which calls it
            collector.turn()
    assert len(spool.own(BATCH, TAKEN)) == 1
    collector.turn()
    assert published(run) == [], "after a failure it pauses"
    seconds.now += FIRST_PAUSE_S
    collector.turn()
    assert published(run) == [0]
    assert not list(spool.folder.iterdir())
    assert not list((run / "segments").glob(".*"))
