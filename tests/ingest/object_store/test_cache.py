"""The cache of a bucket's runs: what goes where there is no room, and what stays."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.object_store import cache as module
from ingest.object_store.cache import Cache
from ingest.object_store.mirrored_run import MIRROR

KB = 1000


def add(cache: Cache, name: str, num_bytes: int, used_s: int) -> None:
    """A run of so many bytes, used at a time."""
    mirror = cache.runs / name / MIRROR
    mirror.mkdir(parents=True)
    (cache.runs / name / "data").write_bytes(b"x" * num_bytes)
    os.utime(mirror, (used_s, used_s))


def test_the_runs_that_were_not_used_for_longest_go(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 10 * KB, is_in_use=lambda name: name == "oldest")
    for name, used_s in (("oldest", 1), ("old", 2), ("newer", 3), ("new", 4)):
        add(cache, name, 2 * KB, used_s)
    cache.make_room("more", 3 * KB)
    assert cache.names() == ["oldest", "newer", "new"]
    cache.make_room("more", 6 * KB)
    assert cache.names() == ["oldest", "new"]
    assert sorted(path.name for path in cache.runs.iterdir()) == ["new", "oldest"]


def test_where_runs_in_use_have_the_room_nothing_goes_and_it_is_said(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 10 * KB, is_in_use=lambda name: name == "used")
    add(cache, "used", 8 * KB, 1)
    add(cache, "old", 1 * KB, 2)
    with pytest.raises(UserError, match="give a greater --cache-size"):
        cache.make_room("more", 3 * KB)
    assert cache.names() == ["used", "old"]


def test_room_that_is_kept_for_a_run_is_not_given_to_others(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 10 * KB, is_in_use=lambda _: True)
    add(cache, "first", 1 * KB, 1)
    cache.make_room("first", 6 * KB)
    with pytest.raises(UserError):
        cache.make_room("second", 4 * KB)
    cache.make_room("second", 3 * KB)
    cache.make_room("first", 0)  # all of it was fetched, or is not to come
    cache.make_room("second", 4 * KB)


def test_a_run_in_which_nothing_is_new_is_noted_as_used_and_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path, 10 * KB, is_in_use=lambda _: False)
    for name, used_s in (("first", 1), ("second", 2)):
        add(cache, name, 2 * KB, used_s)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_num_bytes", None)
        cache.make_room("first", 0)
    assert cache.names() == ["second", "first"]


def test_what_was_fetched_is_for_nobody_else(tmp_path: Path) -> None:
    Cache(tmp_path / "buckets/key", KB, is_in_use=lambda _: True).close()
    assert stat.S_IMODE((tmp_path / "buckets/key").stat().st_mode) == 0o700


def test_two_servers_do_not_share_a_cache(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", KB, is_in_use=lambda _: True)
    with pytest.raises(UserError, match="another server mirrors the same bucket"):
        Cache(tmp_path / "cache", KB, is_in_use=lambda _: True)
    cache.close()
    Cache(tmp_path / "cache", KB, is_in_use=lambda _: True).close()
