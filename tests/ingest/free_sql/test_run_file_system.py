"""SQL sees the files of one run by name, to be read, and no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingest.free_sql.run_file_system import RunFiles


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    (tmp_path / "a").write_bytes(b"12345")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    return RunFiles({name: tmp_path / name for name in ("a", "pipe", "link")})


def test_a_file_of_the_run_is_read(files: RunFiles) -> None:
    with files.open("run://a") as file:
        assert file.read() == b"12345"
    assert files.size("run://a") == 5
    assert files.glob("run://a") == ["run://a"]


@pytest.mark.parametrize("name", ["b", "/etc/hostname", "run://../a", "pipe", "link"])
def test_nothing_else_can_be_opened(files: RunFiles, name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised:  # noqa: PT011
        files.open(name)
    assert str(tmp_path) not in str(raised.value)


def test_nothing_is_written_or_listed(files: RunFiles) -> None:
    with pytest.raises(PermissionError):
        files.open("run://a", "wb")
    assert files.ls("run://") == []
    assert files.glob("run://*") == []
