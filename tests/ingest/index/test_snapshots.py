"""Where the index of a run is published."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from ingest.index.snapshots import (
    INDEX_VERSION,
    current_snapshot,
    index_folder,
    publish_snapshot,
    remove_leftovers,
)

HOUR_NS = 3_600_000_000_000


def test_a_snapshot_stays_where_the_clock_was_set_back_since_those_before(tmp_path: Path) -> None:
    database = tmp_path / "index.duckdb"
    database.write_bytes(b"")
    later_ns = time.time_ns() + HOUR_NS
    for number in range(3):  # published before the clock was set back
        (tmp_path / f"snapshot-{INDEX_VERSION}-{later_ns + number}.duckdb").touch()
    for _ in range(3):
        newest = publish_snapshot(tmp_path, database, "running")
        assert newest.exists()
        assert current_snapshot(tmp_path) == newest
    assert len(list(tmp_path.glob("snapshot-*.duckdb"))) == 2


def test_an_index_of_another_user_is_left_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lock = index_folder(tmp_path) / "lock"
    lock.touch()
    assert index_folder(tmp_path) == lock.parent
    monkeypatch.setattr(os, "access", lambda place, _: place != lock)  # root may write anywhere
    assert (tmp_path / "cache") in index_folder(tmp_path).parents


def test_a_copy_that_fails_leaves_no_part_of_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    database = tmp_path / "index.duckdb"
    database.write_bytes(b"content")
    monkeypatch.setattr("ingest.index.snapshots._copy", full)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        publish_snapshot(tmp_path, database, "running")
    assert list(tmp_path.iterdir()) == [database]


def test_what_a_killed_owner_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".snapshot-1.duckdb.tmp").write_text("")
    pieces = tmp_path / ".collectives-4711.tmp" / "ranks" / "piece=0"
    pieces.mkdir(parents=True)
    (pieces / "data_0.parquet").write_text("")
    (tmp_path / "lock").write_text("")
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


_NOT_SUPPORTED_BY_NFS = 524


@pytest.mark.parametrize(
    "answer", [None, errno.EOPNOTSUPP, errno.EIO, errno.ETXTBSY, _NOT_SUPPORTED_BY_NFS, 0]
)
def test_a_snapshot_has_what_the_database_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int | None
) -> None:
    """Whatever a file system says of copying blocks: an error, or that it has copied nothing."""
    database, content = tmp_path / "index.duckdb", os.urandom(3_000_001)
    database.write_bytes(content)
    copy = os.copy_file_range

    def copied(source: int, target: int, count: int) -> int:
        if answer:
            raise OSError(answer, "refused")
        return 0 if answer == 0 else copy(source, target, min(count, 1 << 20))  # less than asked

    monkeypatch.setattr(os, "copy_file_range", copied)
    assert publish_snapshot(tmp_path, database, "running").read_bytes() == content
