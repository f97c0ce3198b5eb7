"""Files that only their first writer makes: whole or not there, whatever fails or is killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from trace_hooks.job.run_files import claimed_attempt
from trace_hooks.protocol.job_claims import (
    SECRET_FILE,
    attempt_file,
    first_text,
    read_line,
    run_secret,
)

NO_BYTES = """
import resource, signal, sys
from pathlib import Path
from trace_hooks.protocol.job_claims import first_text

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
if sys.argv[2] == "killed":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
first_text(Path(sys.argv[1]), "text")
"""


def write_fails(path: Path, how: str) -> None:
    """A process that writes the file and may not write a byte: the error reaches it or kills it."""
    done = subprocess.run(
        [sys.executable, "-c", NO_BYTES, str(path), how], capture_output=True, check=False
    )
    assert done.returncode != 0


def no_links(_source: object, _target: object) -> NoReturn:
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


@pytest.mark.parametrize("how", ["fails", "killed"])
def test_a_write_that_fails_leaves_no_file_that_counts(tmp_path: Path, how: str) -> None:
    path = attempt_file(tmp_path, 1)
    write_fails(path, how)
    assert not path.exists()
    assert first_text(path, "mine") == "mine"
    assert first_text(path, "another") == "mine"


def test_an_empty_file_that_a_crash_left_counts_as_none(tmp_path: Path) -> None:
    path = attempt_file(tmp_path, 1)
    path.parent.mkdir()
    path.touch()
    assert first_text(path, "mine") == "mine"
    assert first_text(path, "another") == "mine"


def test_an_empty_secret_is_made_again_and_stays(tmp_path: Path) -> None:
    (tmp_path / SECRET_FILE).touch(0o600)
    secret = run_secret(tmp_path)
    assert run_secret(tmp_path) == secret
    assert (tmp_path / SECRET_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("has_links", [True, False])
def test_the_first_writer_has_the_file_and_nothing_else_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    """`has_links`: of the file system, hard ones."""
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "attempts" / "0000"
    assert [first_text(path, text) for text in ("a", "b", "a")] == ["a", "a", "a"]
    assert [one.name for one in path.parent.iterdir()] == ["0000"]
    assert [claimed_attempt(tmp_path)[0] for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_not_a_plain_file_is_neither_read_nor_written(tmp_path: Path, kind: str) -> None:
    path, secret = tmp_path / "claim", tmp_path / "elsewhere"
    secret.write_text("secret")
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    for call in (lambda: read_line(path), lambda: first_text(path, "text")):
        with pytest.raises(OSError, match=r"claim|regular"):
            call()
    assert secret.read_text() == "secret"
