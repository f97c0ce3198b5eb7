"""Files of a run folder: links are not followed, pipes are not opened, paths stay inside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.run_folder.run_paths import (
    has_links,
    is_data_path,
    listed,
    read_plain_file,
    readable,
    require_no_links,
    write_new_file,
)


@pytest.fixture
def link(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    return tmp_path / "link"


def test_a_link_is_not_read(link: Path) -> None:
    with pytest.raises(OSError, match="it is a link"):
        read_plain_file(link, 10)
    with pytest.raises(UserError, match="replace it by a regular file"):
        readable(str(link))


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a file"):
        read_plain_file(tmp_path / "pipe", 10)


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    assert read_plain_file(tmp_path / "a", 3) == b"123"
    with pytest.raises(OSError, match="it has 3 bytes"):
        read_plain_file(tmp_path / "a", 2)
    assert readable(str(tmp_path / "missing")).endswith("missing")


def test_writing_replaces_a_link_and_not_what_it_leads_to(link: Path) -> None:
    write_new_file(link, b"new")
    assert link.read_bytes() == b"new"
    assert (link.parent / "secret").read_bytes() == b"x"


def test_folders_that_are_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "segments").symlink_to(tmp_path)
    with pytest.raises(UserError, match="segments is a link"):
        require_no_links(tmp_path / "run")
    assert has_links(tmp_path / "run")
    assert list(listed(tmp_path / "run" / "segments", "")) == []


def test_hidden_files_and_other_endings_are_not_listed(tmp_path: Path) -> None:
    for name in (".a.parquet", "b.parquet", "c.tmp"):
        (tmp_path / name).touch()
    assert [file.name for file in listed(tmp_path, ".parquet")] == ["b.parquet"]


@pytest.mark.parametrize(
    ("path", "is_inside"),
    [
        ("segments/a.parquet", True),
        ("compacted/a.parquet", True),
        ("../segments/a.parquet", False),
        ("segments/../../a.parquet", False),
        ("ranks/a.parquet", False),
    ],
)
def test_paths_of_an_index_stay_inside(path: str, is_inside: bool) -> None:
    assert is_data_path(path) is is_inside
