"""What hellos may write: a server that is killed, a disk that fails, folders that are read-only."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.live import claims as live_claims
from app.live.claims import Claims, NotYours
from app.live.connected_rank import Hello
from ingest.errors import UserError
from trace_hooks.protocol.job_claims import DIGEST_FILE, SECRET_FILE, attempt_file, digest_of

SECRET = "the-secret-that-the-ranks-of-one-run-share"
ANOTHER = "what-somebody-else-has-who-knows-the-job-token"

CLAIM = """
import os, resource, signal, sys
from pathlib import Path

from app.live import claims as live_claims
from app.live.connected_rank import Hello

runs, limit, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
claims, left = live_claims.Claims(runs), [number]


def count(event, arguments):
    changes = event in ("os.mkdir", "os.link", "os.rename", "os.remove", "os.utime")
    if changes or event == "open" and arguments[2] & os.O_CREAT:
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)


if limit == "killed":
    sys.addaudithook(count)
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if limit == "killed at its first byte":
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
claims.check(Hello("night", 0, 0, 8, start="a-start-of-it", secret=sys.argv[4]))
"""


def hello(run: str = "night", **more: object) -> Hello:
    fields = {"attempt": 0, "rank": 0, "start": "a-start-of-it", "secret": SECRET, **more}
    return Hello(run, world_size=8, **fields)  # type: ignore[arg-type]


def server_claims(runs: Path, limit: str, number: int = 0) -> int:
    """Exit status of a server that takes a hello, and is killed before one of its changes, say."""
    order = [sys.executable, "-c", CLAIM, str(runs), limit, str(number), SECRET]
    return subprocess.run(order, capture_output=True, check=False, timeout=60).returncode


def is_let_in(claims: Claims, own: Hello) -> bool:
    try:
        claims.check(own)
    except NotYours:
        return False
    return True


def job_goes_on(runs: Path) -> None:
    """All ranks of the start get in, and nobody else does."""
    claims = Claims(runs)
    assert all(is_let_in(claims, hello(rank=rank)) for rank in range(3))
    assert not is_let_in(claims, hello(start="another-start"))
    assert not is_let_in(claims, hello(attempt=1, secret=ANOTHER))
    assert is_let_in(claims, hello(attempt=1, start="another-start"))


@pytest.mark.long
def test_a_server_that_is_killed_before_any_of_its_changes_keeps_no_job_out(tmp_path: Path) -> None:
    for number in range(40):
        runs = tmp_path / str(number)
        runs.mkdir()
        if server_claims(runs, "killed", number) == 0:
            break
        job_goes_on(runs)
    else:
        pytest.fail("the server makes more changes than this test interrupts")
    assert number > 5


@pytest.mark.parametrize("limit", ["fails", "killed at its first byte"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_write_that_fails_keeps_no_job_out(tmp_path: Path, limit: str, is_new: bool) -> None:
    """`is_new`: the run; else its first attempt fails."""
    if not is_new:
        Claims(tmp_path).check(hello(attempt=7))
    assert server_claims(tmp_path, limit) != 0
    job_goes_on(tmp_path)


def test_a_digest_that_a_crash_left_empty_keeps_no_job_out(tmp_path: Path) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / DIGEST_FILE).touch()
    job_goes_on(tmp_path)


@pytest.mark.parametrize("name", ["run.json", SECRET_FILE])
def test_an_empty_digest_of_a_run_with_data_lets_nobody_in(tmp_path: Path, name: str) -> None:
    run = tmp_path / "night"
    run.mkdir()
    for file in (run / name, run / DIGEST_FILE):
        file.touch()
    with pytest.raises(NotYours, match="is empty; give TRACE_HOOKS_RUN another name"):
        Claims(tmp_path).check(hello())


def test_what_a_killed_server_left_of_opening_a_run_is_removed_in_time(tmp_path: Path) -> None:
    server_claims(tmp_path, "killed", 1)
    server_claims(tmp_path, "killed", 2)
    left = list(tmp_path.iterdir())
    assert len(left) == 2
    Claims(tmp_path).check(hello("day"))
    assert set(left) < set(tmp_path.iterdir())
    for folder in left:
        for path in (*folder.iterdir(), folder):
            os.utime(path, (1, 1))
    Claims(tmp_path).check(hello("night"))
    assert {path.name for path in tmp_path.iterdir()} == {"day", "night"}


def test_a_connected_run_is_not_forgotten(tmp_path: Path) -> None:
    """It shows frames for weeks and sends no files."""
    for name in ("long", "gone"):
        Claims(tmp_path).check(hello(name))
    for name in ("long", "gone"):
        os.utime(tmp_path / name / DIGEST_FILE, (1, 1))
    Claims(tmp_path, lambda run: run == "long").check(hello())
    assert {path.name for path in tmp_path.iterdir()} == {"long", "night"}


def fails(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(_path: Path, _text: str) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(live_claims, "first_text", fail)


def of_these_ranks(run: Path) -> Path:
    """A folder of a run into which its ranks write themselves."""
    run.mkdir()
    (run / DIGEST_FILE).write_text(digest_of(SECRET))
    return run


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE])
def test_a_disk_that_fails_gives_no_attempt_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    of_these_ranks(tmp_path / "night")
    claims = Claims(tmp_path)
    with monkeypatch.context() as patch:
        fails(patch, number)
        with pytest.raises(UserError, match="cannot be written"):
            claims.check(hello(start="another-start"))
    claims.check(hello())


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_claims_in_a_read_only_folder_are_remembered_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    run = of_these_ranks(tmp_path / "night")
    fails(monkeypatch, number)
    monkeypatch.setattr(live_claims, "MOST_UNWRITTEN", 2)
    claims = Claims(tmp_path)
    for attempt in range(5):
        assert is_let_in(claims, hello(attempt=attempt))
        assert not is_let_in(claims, hello(attempt=attempt, start="another-start"))
    assert len(claims._starts) == 2
    assert not attempt_file(run, 0).exists()
