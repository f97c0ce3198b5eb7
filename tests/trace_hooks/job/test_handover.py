"""A rank hands rows over, and publishes them itself where nobody else does: each once."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import pytest

from tests.trace_hooks.watchdog.spooled import batch, marks, published
from trace_hooks.job import handover as module
from trace_hooks.job.handover import START_S, HandoverWriter
from trace_hooks.job.spool import (
    BATCH,
    MINE,
    TAKEN,
    Destination,
    Spool,
    taken_for,
    unpublished_bundle,
)
from trace_hooks.recording.segment_writer import SegmentWriter
from trace_hooks.watchdog.watchdog import remove_files


class Seconds:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    clock = Seconds()
    monkeypatch.setattr(module.time, "monotonic", clock.monotonic)
    monkeypatch.setattr(module.time, "sleep", lambda s: setattr(clock, "now", clock.now + s))
    return clock


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "segments").mkdir(parents=True)
    return tmp_path / "run"


def writer_of(meeting: Path, run: Path, rank: int = 0) -> tuple[HandoverWriter, Spool]:
    spool = Spool(meeting, f"{rank}-a")
    own = SegmentWriter(run, 0, rank)
    return HandoverWriter(own, spool, Destination(run, 0, rank)), spool


def collector_in(meeting: Path) -> Spool:
    spool = Spool(meeting, "collector")
    spool.become_collector()
    return spool


def test_rows_go_to_the_collector(tmp_path: Path, run: Path, seconds: Seconds) -> None:
    writer, spool = writer_of(tmp_path, run)
    collector_in(tmp_path)
    writer.write_all({"marks": [marks(1), marks(2)]})
    assert len(spool.own(BATCH)) == 1
    assert not published(run)
    assert writer.dropped == 0


def test_rows_wait_for_a_collector_that_may_still_start(
    tmp_path: Path, run: Path, seconds: Seconds
) -> None:
    writer, spool = writer_of(tmp_path, run)
    writer.write_all({"marks": [marks(1)]})
    writer.check()
    assert len(spool.own(BATCH)) == 1
    seconds.now += START_S
    writer.check()
    writer.write_all({"marks": [marks(2)]})
    assert published(run) == [1, 2]
    assert not list(spool.folder.iterdir())


def test_a_dead_collector_costs_no_row_and_gives_none_twice(
    tmp_path: Path, run: Path, seconds: Seconds
) -> None:
    writer, spool = writer_of(tmp_path, run)
    collector = collector_in(tmp_path)
    for number in range(4):
        writer.write_all({"marks": [marks(number)]})
    first, second, third, _ = spool.own(BATCH)
    unpublished_bundle(run, 50).touch()
    first.rename(taken_for(first, 50))  # it was writing this one ...
    second.rename(taken_for(second, 50))
    third.rename(taken_for(third, 40))  # ... and had published that one
    collector.count_published()
    collector.close()
    writer.check()
    assert published(run) == [0, 1, 3]
    assert (writer.num_files, writer.num_host_files) == (3, 1)
    assert not list(spool.folder.iterdir())
    assert not unpublished_bundle(run, 50).exists()


def test_a_run_folder_that_is_away_says_nothing_of_what_is_published(
    tmp_path: Path, run: Path, seconds: Seconds
) -> None:
    writer, spool = writer_of(tmp_path, run)
    collector = collector_in(tmp_path)
    writer.write_all({"marks": [marks(1)]})
    (path,) = spool.own(BATCH)
    path.rename(taken_for(path, 50))
    unpublished_bundle(run, 50).touch()
    collector.close()
    (run / "segments").rename(run / "away")
    writer.check()
    assert len(spool.own(TAKEN)) == 1
    (run / "away").rename(run / "segments")
    writer.check()
    assert published(run) == [1]


def test_batches_of_a_dead_rank_are_published_by_another(
    tmp_path: Path, run: Path, seconds: Seconds
) -> None:
    writer, spool = writer_of(tmp_path, run)
    dead = Spool(tmp_path, "99-z")
    for number in (7, 8, 9):
        dead.put(batch(run, 3, number))
    old, taken, young = dead.own(BATCH)
    os.utime(old, (5, 5))
    os.utime(taken, (5, 5))
    taken.rename(taken_for(taken, 50))
    unpublished_bundle(run, 50).touch()
    seconds.now += START_S
    writer.check()
    assert published(run) == [7, 8]
    os.utime(young, (5, 5))
    writer.check()
    assert published(run) == [7, 8, 9]
    assert not list(spool.folder.iterdir())


def test_an_interrupted_publication_is_repeated_under_the_same_names(
    tmp_path: Path, run: Path, seconds: Seconds
) -> None:
    writer, spool = writer_of(tmp_path, run)
    path, _ = spool.put(batch(run, 0, 1))
    mine = spool.claim(path)
    assert mine is not None
    content = mine.read_bytes()
    seconds.now += START_S
    writer.check()
    (segment,) = (run / "segments").iterdir()
    mine.write_bytes(content)  # the rank was killed before it removed the batch
    writer.check()
    assert list((run / "segments").iterdir()) == [segment]
    assert not spool.own(MINE)


def test_a_collector_that_hangs_is_given_up(tmp_path: Path, run: Path, seconds: Seconds) -> None:
    writer, _ = writer_of(tmp_path, run)
    collector_in(tmp_path)
    writer.write_all({"marks": [marks(1)]})
    seconds.now += module.STUCK_S + 1
    writer.write_all({"marks": [marks(2)]})
    writer.check()
    assert published(run) == [1, 2]


@pytest.mark.parametrize(
    ("name", "value"), [("MOST_WAITING_BYTES", 0), ("LEAST_FREE_BYTES", 1 << 60)]
)
def test_where_there_is_no_room_the_rank_writes_files(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(module, name, value)
    writer, spool = writer_of(tmp_path, run)
    collector_in(tmp_path)
    writer.write_all({"marks": [marks(1)]})
    assert published(run) == [1]
    assert not spool.own(BATCH)


def test_the_end_does_not_wait_for_a_collector_that_does_nothing(
    tmp_path: Path, run: Path, seconds: Seconds
) -> None:
    writer, spool = writer_of(tmp_path, run)
    collector_in(tmp_path)
    writer.write_all({"marks": [marks(1)]})
    writer.finish()
    assert published(run) == [1]
    assert not spool.own(BATCH, MINE)
    assert seconds.now < 1000 + 2 * module.FINISH_S


def test_a_flush_without_rows_hands_nothing_over(tmp_path: Path, run: Path) -> None:
    writer, spool = writer_of(tmp_path, run)
    collector_in(tmp_path)
    writer.write_all({})
    assert not spool.own(BATCH)


def test_batches_of_the_same_instant_do_not_replace_each_other(
    tmp_path: Path, run: Path, seconds: Seconds
) -> None:
    writer, spool = writer_of(tmp_path, run)
    for stem, number in (("98-y", 7), ("99-z", 8)):
        path, _ = Spool(tmp_path, stem).put(batch(run, number, number))
        os.utime(path, (5, 5))
        path.rename(spool.folder / f"{stem}.1000{BATCH}")
    first, second = spool.batches(BATCH)
    assert spool.claim(first) is not None
    assert spool.claim(second) is None
    seconds.now += START_S
    writer.check()
    assert published(run) == [7, 8]


def test_frames_are_written_by_the_rank(tmp_path: Path, run: Path) -> None:
    writer, spool = writer_of(tmp_path, run)
    collector_in(tmp_path)
    assert writer.write("marks", [marks(1)])
    assert published(run) == [1]
    assert not spool.own(BATCH)


def test_no_collector_begins_while_a_rank_publishes_in_its_place(
    tmp_path: Path, run: Path, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, _ = writer_of(tmp_path, run)
    Spool(tmp_path, "watchdog").put(batch(run, 0, 1))
    collector = os.open(tmp_path / "collector.lock", os.O_RDWR)
    publish, num_refused = module.publish_claimed, 0

    def publish_while_a_collector_tries(path: Path) -> int:
        nonlocal num_refused
        with pytest.raises(BlockingIOError):
            fcntl.flock(collector, fcntl.LOCK_EX | fcntl.LOCK_NB)
        num_refused += 1
        return publish(path)

    monkeypatch.setattr(module, "publish_claimed", publish_while_a_collector_tries)
    seconds.now += START_S
    writer.check()
    Spool(tmp_path, "watchdog").put(batch(run, 0, 2))
    writer.finish()
    assert (published(run), num_refused) == ([1, 2], 2)
    fcntl.flock(collector, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(collector)


def test_a_batch_that_another_rank_takes_first_holds_up_no_other(
    tmp_path: Path, run: Path, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, spool = writer_of(tmp_path, run)
    collector = collector_in(tmp_path)
    for number in range(3):
        writer.write_all({"marks": [marks(number)]})
    first, *_ = spool.own(BATCH)
    taken = first.rename(taken_for(first, 50))
    unpublished_bundle(run, 50).touch()
    collector.close()
    listed = Spool.own

    def own(of: Spool, *states: str) -> list[Path]:
        found = listed(of, *states)
        if taken in found and MINE in states:
            taken.rename(taken.with_name(f"9-b.1{MINE}"))
        return found

    monkeypatch.setattr(Spool, "own", own)
    writer.finish()
    assert published(run) == [1, 2]


def test_a_process_forked_while_a_rank_looks_does_not_keep_a_collector_out(tmp_path: Path) -> None:
    """As a worker of a data loader, which has all descriptors that were open."""
    spool = Spool(tmp_path, "rank")
    with spool.no_collector() as is_so:
        assert is_so
        worker = os.fork()
        if not worker:
            signal.pause()
    try:
        collector = os.open(tmp_path / "collector.lock", os.O_RDWR)
        fcntl.flock(collector, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(collector)
    finally:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)


def test_a_rank_that_outlives_its_watchdog_does_not_say_that_rows_wait(
    tmp_path: Path, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    writer, _ = writer_of(meeting, run)
    remove_files(meeting)
    writer.write_all({"marks": [marks(1)]})
    writer.check()
    writer.finish()
    assert published(run) == [1]
    assert not caplog.records
