"""One owner of an index at a time, also where hosts do not see each other's locks."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.index import index_lock
from ingest.index.index_lock import IndexLock
from ingest.index.indexer import Busy, Indexer
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


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refusing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refusing)
    with pytest.raises(UserError, match="cannot be locked"):
        IndexLock(tmp_path).acquire()
