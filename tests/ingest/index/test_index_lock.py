"""One owner of an index at a time, also where hosts do not see each other's locks."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from ingest.errors import DiskFull, UserError
from ingest.index import index_lock
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
    monkeypatch.setattr(index_lock, "LEASE_S", 0.2)
    (tmp_path / "lock").write_text("a")  # and nobody touches it
    other = IndexLock(tmp_path, "b")
    assert other.acquire()
    other.release()


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
