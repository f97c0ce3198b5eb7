"""One owner of an index at a time, also where hosts do not see each other's locks."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.errors import DiskFull, UserError
from ingest.index import compaction, index_lock, merging
from ingest.index.index_lock import IndexLock
from ingest.index.indexer import Busy, Indexer
from tests.faults.disks import mounted
from tests.runs_builder import two_rank_run


@pytest.fixture
def no_shared_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """flock succeeds for everybody, as on NFS mounted with nolock."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    monkeypatch.setattr(index_lock, "TOUCH_EVERY_S", 0.02)
    monkeypatch.setattr(index_lock, "_LOOK_EVERY_S", 0.02)


class FileServer:
    """A clock that stands still but for sleeps and answers of a file server about the lock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers_s: list[float]) -> None:
        self.now_s = 0.0
        self.answers_s = answers_s
        self.looks = 0
        look = IndexLock._last_owner

        def asked(lock: IndexLock) -> tuple[str, int]:
            self.now_s += self.answers_s[min(self.looks, len(self.answers_s) - 1)]
            self.looks += 1
            return look(lock)

        monkeypatch.setattr(index_lock, "time", self)
        monkeypatch.setattr(IndexLock, "_last_owner", asked)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_on_one_host_the_kernel_decides_and_a_dead_owner_is_not_waited_for(tmp_path: Path) -> None:
    first, second = IndexLock(tmp_path), IndexLock(tmp_path)
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    assert second.is_ours
    second.release()
    assert "index lock" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.usefixtures("no_shared_locks")
def test_another_host_leaves_it_to_an_owner_that_lives(tmp_path: Path) -> None:
    owner, other = IndexLock(tmp_path, "a"), IndexLock(tmp_path, "b")
    assert owner.acquire()
    assert not other.acquire()
    assert owner.is_ours
    owner.release()
    assert other.acquire(), "it was given back"
    other.release()


@pytest.mark.usefixtures("no_shared_locks")
def test_another_host_takes_over_from_an_owner_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FileServer(monkeypatch, [0.0])
    (tmp_path / "lock").write_text("a")  # and nobody touches it
    other = IndexLock(tmp_path, "b")
    assert other.acquire()
    other.release()


@pytest.mark.usefixtures("no_shared_locks")
def test_a_look_that_hangs_does_not_count_as_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").write_text("a")
    server = FileServer(monkeypatch, [0.0, 0.0, 4.0, 0.0])
    other = IndexLock(tmp_path, "b")
    assert other.acquire(), "it is quiet after that, too"
    assert server.now_s > 4.0 + index_lock.LEASE_S
    other.release()


@pytest.mark.usefixtures("no_shared_locks")
def test_where_every_look_hangs_the_index_is_left_to_the_other_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").write_text("a")
    FileServer(monkeypatch, [4.0])
    assert not IndexLock(tmp_path, "b").acquire()
    assert (tmp_path / "lock").read_text() == "a"


@pytest.mark.usefixtures("no_shared_locks")
def test_of_two_hosts_that_take_over_at_once_the_last_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").write_text("a")
    FileServer(monkeypatch, [0.0])
    write = IndexLock._write

    def both_write(lock: IndexLock, host: str) -> None:
        write(lock, host)
        write(lock, "c")

    monkeypatch.setattr(IndexLock, "_write", both_write)
    assert not IndexLock(tmp_path, "b").acquire()


@pytest.mark.usefixtures("no_shared_locks")
def test_an_owner_that_loses_the_index_during_a_pass_commits_nothing(tmp_path: Path) -> None:
    folder = two_rank_run(tmp_path / "run").folder
    with Indexer(folder) as indexer:
        state = indexer.database.state
        with pytest.raises(Busy), indexer.database.transaction():
            (folder / "index" / "lock").write_text("another host")
        assert indexer.database.state == state


@pytest.mark.usefixtures("no_shared_locks")
def test_an_owner_that_loses_the_index_during_a_merge_publishes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "CLOSED_S", -1.0)
    run = two_rank_run(tmp_path / "run")
    rows = merging.merged_rows

    def paused(table: str, paths: list[Path]) -> Iterator[pa.Table]:
        (run.folder / "index" / "lock").write_text("another host")
        return rows(table, paths)

    monkeypatch.setattr(merging, "merged_rows", paused)
    with Indexer(run.folder) as indexer, pytest.raises(Busy, match="another host is indexing"):
        indexer.refresh()
    assert list((run.folder / "compacted").iterdir()) == []


@pytest.mark.usefixtures("no_shared_locks")
def test_an_owner_that_another_host_took_for_dead_writes_no_more(tmp_path: Path) -> None:
    folder = two_rank_run(tmp_path / "run").folder
    with Indexer(folder) as indexer:
        indexer.refresh()
        lock = folder / "index" / "lock"
        lock.write_text("another host")
        with pytest.raises(Busy, match="another host is indexing"):
            indexer.refresh()
    assert lock.read_text() == "another host", "it still has the index"


def test_a_full_disk_is_said_and_the_lock_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as while_full:
        while_full.setattr(os, "pwrite", full)
        with pytest.raises(DiskFull, match=r"lock cannot be written \(No space left on device\)"):
            IndexLock(tmp_path).acquire()
    lock = IndexLock(tmp_path)
    assert lock.acquire()
    lock.release()


def test_a_lock_that_was_held_before_is_taken_on_a_full_disk(tmp_path: Path) -> None:
    """gc must be able to delete a run then."""
    with mounted(tmp_path / "disk", 1) as disk:
        lock = IndexLock(disk.folder)
        assert lock.acquire()
        lock.release()
        disk.fill()
        assert lock.acquire()
        assert lock.is_ours
        lock.release()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refusing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refusing)
    with pytest.raises(UserError, match="cannot be locked"):
        IndexLock(tmp_path).acquire()
