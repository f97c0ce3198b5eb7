"""Links and pipes in folders into which a server receives: it writes, deletes and waits nowhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.live.claims import Claims, NotYours
from app.live.connected_rank import Hello
from app.live.segment_check import problem_of
from app.live.shipped_files import ShippedFiles, has_ended
from ingest.errors import UserError
from ingest.index.quarantine import Quarantine
from tests.hostile.test_job_tokens import rank_file, segment, steps_file
from trace_hooks.protocol.file_transfer import Parcel
from trace_hooks.protocol.job_claims import DIGEST_FILE, digest_of
from trace_hooks.schema import SegmentName

SECRET = "the-secret-that-the-ranks-of-one-run-share"
WAIT_S = 20.0
OWN = b"what the server's user has there"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of the server's user outside of the runs."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("keys", "run.json", "0000", DIGEST_FILE):
        (folder / name).write_bytes(OWN)
    os.utime(folder / DIGEST_FILE, (1, 1))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "night"
    folder.mkdir(parents=True)
    return folder


def contents(folder: Path) -> dict[str, tuple[bytes, float]]:
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime)
        for path in folder.rglob("*")
        if path.is_file()
    }


def hello(run: str = "night", **more: int) -> Hello:
    return Hello(run, more.get("attempt", 0), 0, 8, start="a-start-of-it", secret=SECRET)


def of_these_ranks(run: Path) -> None:
    (run / DIGEST_FILE).write_text(digest_of(SECRET))


def ends(call: Callable[[], object]) -> BaseException | None:
    """What a call raises; fails where it waits for good."""
    raised: list[BaseException | None] = []

    def record() -> None:
        try:
            call()
        except (OSError, UserError) as error:
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=record, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert raised, "it waits for good"
    return raised[0]


@pytest.mark.parametrize("linked", ["attempts", "digest", "run"])
def test_what_a_link_leads_to_is_not_removed_to_make_room(
    linked: str, run: Path, elsewhere: Path
) -> None:
    forgotten = elsewhere / "forgotten"
    (forgotten / "attempts").mkdir(parents=True)
    (forgotten / "attempts" / "0000").write_bytes(OWN)
    (forgotten / DIGEST_FILE).write_bytes(OWN)
    os.utime(forgotten / DIGEST_FILE, (1, 1))
    if linked == "run":
        run.rmdir()
        run.symlink_to(forgotten)
    elif linked == "digest":
        (run / DIGEST_FILE).symlink_to(forgotten / DIGEST_FILE)
        (run / "attempts").mkdir()
    else:
        (run / DIGEST_FILE).touch()
        os.utime(run / DIGEST_FILE, (1, 1))
        (run / "attempts").symlink_to(forgotten / "attempts")
    before = contents(elsewhere)
    Claims(run.parent).check(hello("another"))
    assert contents(elsewhere) == before
    assert run.exists()


def test_an_attempt_is_not_claimed_through_a_link(run: Path, elsewhere: Path) -> None:
    of_these_ranks(run)
    (run / "attempts").symlink_to(elsewhere)
    with pytest.raises(NotYours, match="no job writes through links"):
        Claims(run.parent).check(hello(attempt=3))
    assert not (elsewhere / "0003").exists()


@pytest.mark.parametrize("name", [DIGEST_FILE, "attempts/0000"])
def test_a_claim_that_is_a_link_is_not_followed(run: Path, elsewhere: Path, name: str) -> None:
    of_these_ranks(run)
    (run / "attempts").mkdir()
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(elsewhere / "keys")
    before = contents(elsewhere)
    with pytest.raises(UserError):
        Claims(run.parent).check(hello())
    assert contents(elsewhere) == before


@pytest.mark.parametrize("parcel", [steps_file(number=8), segment(b"rows", number=8), rank_file(0)])
@pytest.mark.parametrize(
    "place",
    [
        "incoming/NAME",
        "segments/NAME",
        "quarantine/NAME",
        "incoming/00000/JSON",
        "ranks/JSON",
        "received/00000.json",
        "received/.00000.json.PID.tmp",
        "ranks/.JSON.PID.tmp",
        "quarantine/.sentences.json.PID.tmp",
    ],
)
def test_a_file_is_not_written_through_a_link(
    run: Path, elsewhere: Path, place: str, parcel: Parcel
) -> None:
    files = ShippedFiles(run, 0, problem_of)
    files.store(steps_file(number=7))  # the link comes later
    name = place.replace("NAME", str(SegmentName("steps", 0, 0, 8)))
    name = name.replace("JSON", "0000-00000.json").replace("PID", str(os.getpid()))
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(elsewhere / "keys")
    before = contents(elsewhere)
    for one in (files, ShippedFiles(run, 0, problem_of)):
        ends(lambda one=one: one.store(parcel))  # type: ignore[misc]
    assert contents(elsewhere) == before


@pytest.mark.parametrize("parcel", [steps_file(), segment(b"rows"), rank_file(0)])
@pytest.mark.parametrize(
    "name",
    ["segments", "ranks", "incoming", "received", "quarantine", "attempts", "incoming/00000"],
)
def test_no_folder_that_is_a_link_is_written(
    run: Path, elsewhere: Path, name: str, parcel: Parcel
) -> None:
    files = ShippedFiles(run, 0, problem_of)
    files.store(steps_file(number=7))  # it was open before
    if (run / name).is_dir():
        (run / name).rename(run / "before")
    (run / name).symlink_to(elsewhere)
    before = contents(elsewhere)
    for one in (files, ShippedFiles(run, 0, problem_of)):
        if name == "incoming/00000" and parcel.segment is not None:
            continue
        assert "is a link" in str(ends(lambda one=one: one.store(parcel)))  # type: ignore[misc]
    assert contents(elsewhere) == before


def test_sentences_of_files_set_aside_are_not_read_through_a_link(
    run: Path, elsewhere: Path
) -> None:
    (elsewhere / "sentences.json").write_text('{"sentences": ["of another run"], "more": 1}')
    (run / "quarantine").symlink_to(elsewhere)
    assert Quarantine(run).sentences() == []


@pytest.mark.parametrize("name", [DIGEST_FILE, "attempts/0000"])
def test_a_pipe_keeps_no_other_run_waiting(run: Path, name: str) -> None:
    of_these_ranks(run)
    (run / "attempts").mkdir()
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    claims = Claims(run.parent)
    assert isinstance(ends(lambda: claims.check(hello())), UserError)
    assert ends(lambda: claims.check(hello("another"))) is None


@pytest.mark.parametrize(
    "name", ["received/00000.json", "ranks/0000-00000.json", "quarantine/sentences.json"]
)
def test_a_pipe_keeps_no_file_waiting(run: Path, name: str) -> None:
    (run / name).parent.mkdir()
    os.mkfifo(run / name)
    for parcel in (segment(b"rows"), rank_file(0)):
        ends(lambda parcel=parcel: ShippedFiles(run, 0, problem_of).store(parcel))  # type: ignore[misc]
    ends(lambda: has_ended(run, 0, 0))
    ends(lambda: Quarantine(run).sentences())
