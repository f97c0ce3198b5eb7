"""Files of ranks are stored once, wherever server or rank is interrupted."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from app.received_files import ReceivedFiles
from ingest.errors import UserError
from trace_hooks.agent_spool import Spool
from trace_hooks.parcels import Parcel, decode
from trace_hooks.schema import SegmentName
from trace_hooks.watch_reports import FIRST_NUMBER

LARGEST = 10_000


def segment(number: int, table: str = "steps", attempt: int = 0, data: bytes = b"rows") -> Parcel:
    return Parcel(f"segments/{SegmentName(table, attempt, 3, number)}", data)


def stored(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "segments").iterdir()}


@pytest.mark.parametrize("name", ["run.json", "ranks/0001-00003.json"])
def test_a_file_travels_as_it_is(name: str) -> None:
    for parcel in (Parcel(name, b'{"a": 1}'), segment(7, data=b"\0\xff" * 9)):
        assert decode(parcel.encode()) == parcel
    assert segment(7).rank == Parcel("ranks/0001-00003.json", b"").rank == 3


@pytest.mark.parametrize(
    "name",
    ["", "../run.json", "/etc/passwd", "segments/../x", "segments/x.parquet", "segments/",
     "ranks/a.json", "ranks/0000-00000.json/..", "index/manifest", "segments/eval-0000-00003-1"],
)  # fmt: skip
def test_a_name_that_no_rank_has_a_file_of_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no file of a rank"):
        Parcel(name, b"")


@pytest.mark.parametrize(
    "content", [b"", b"RSP1", b"RSP1\xff\xff\xff\xff", b"RSP1\2\0\0\0[]", b"RSP1\2\0\0\0{}",
                b'RSP1\x0a\0\0\0{"name":1}'],
)  # fmt: skip
def test_what_is_no_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="file"):
        decode(content)


def test_what_comes_again_is_not_stored_again(tmp_path: Path) -> None:
    files = ReceivedFiles(tmp_path, 3)
    for parcel in (segment(0), segment(1), segment(0, "spans"), segment(0, attempt=1)):
        files.store(parcel)
        files.store(parcel)
    assert len(stored(tmp_path)) == 4
    for path in (tmp_path / "segments").iterdir():
        path.unlink()  # the indexer has merged them
    files.store(segment(1))
    ReceivedFiles(tmp_path, 3).store(segment(1))  # a server that was started since
    assert stored(tmp_path) == {}
    ReceivedFiles(tmp_path, 3).store(segment(2))
    assert list(stored(tmp_path)) == ["steps-0000-00003-00000002.parquet"]


def test_the_watchdog_counts_by_itself(tmp_path: Path) -> None:
    files = ReceivedFiles(tmp_path, 3)
    for number in (0, FIRST_NUMBER, 1, FIRST_NUMBER + 1):
        files.store(segment(number, "marks"))
    assert len(stored(tmp_path)) == 4


def interrupted_at(
    monkeypatch: pytest.MonkeyPatch, call: str, number: int, error: BaseException
) -> None:
    """Have one call of a method of Path fail, as if the process were killed before it, say."""
    real, left = getattr(Path, call), [number]

    def fails(self: Path, *given: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise error
        return real(self, *given)

    monkeypatch.setattr(Path, call, fails)


@pytest.mark.parametrize(("call", "number"), [("write_bytes", 1), ("replace", 1), ("replace", 2)])
def test_a_server_that_is_killed_at_any_moment_stores_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    ReceivedFiles(tmp_path, 3).store(segment(0))
    with monkeypatch.context() as patch:
        interrupted_at(patch, call, number, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            ReceivedFiles(tmp_path, 3).store(segment(1))
    before = stored(tmp_path)
    ReceivedFiles(tmp_path, 3).store(segment(1))
    assert len(stored(tmp_path)) == 2
    assert before.items() <= stored(tmp_path).items()
    assert not list((tmp_path / "incoming").iterdir())


@pytest.mark.parametrize(("call", "number"), [("write_bytes", 1), ("replace", 1), ("replace", 2)])
def test_a_disk_that_was_full_at_any_moment_stores_it_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    files = ReceivedFiles(tmp_path, 3)
    files.store(segment(0))
    with monkeypatch.context() as patch:
        interrupted_at(patch, call, number, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(UserError, match="make room"):
            files.store(segment(1))
    files.store(segment(1))
    assert len(stored(tmp_path)) == 2


def test_a_damaged_note_is_told(tmp_path: Path) -> None:
    ReceivedFiles(tmp_path, 3).store(segment(0))
    (tmp_path / "received" / "00003.json").write_text("")
    with pytest.raises(UserError, match="is damaged"):
        ReceivedFiles(tmp_path, 3).store(segment(1))


def test_another_start_with_the_same_number_is_told_apart(tmp_path: Path) -> None:
    files = ReceivedFiles(tmp_path, 3)
    told = {"attempt": 0, "rank": 3, "started_ns": 5}
    name = "ranks/0000-00003.json"
    files.store(Parcel(name, json.dumps(told).encode()))
    files.store(Parcel(name, json.dumps(told | {"end": 1}).encode()))
    with pytest.raises(UserError, match="another start of this job was 0000-00003 already"):
        files.store(Parcel(name, json.dumps(told | {"started_ns": 6}).encode()))
    with pytest.raises(UserError, match="is no JSON"):
        files.store(Parcel(name, b"{"))


def test_the_run_file_is_the_first_ones(tmp_path: Path) -> None:
    files = ReceivedFiles(tmp_path, 0)
    files.store(Parcel("run.json", b'{"run": "a"}'))
    files.store(Parcel("run.json", b'{"run": "b"}'))
    assert json.loads((tmp_path / "run.json").read_text()) == {"run": "a"}


def spooled(folder: Path, *parcels: Parcel) -> Spool:
    for parcel in parcels:
        path = folder / parcel.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(parcel.data)
    spool = Spool(folder, 3)
    spool.begin(LARGEST)
    return spool


def test_files_are_sent_in_order_one_at_a_time_and_removed_once_stored(tmp_path: Path) -> None:
    rank_file = Parcel("ranks/0000-00003.json", b"{}")
    spool = spooled(tmp_path, segment(1), segment(0), segment(0, "marks"), rank_file)
    sent = []
    while (parcel := spool.next()) is not None:
        assert spool.next() is None  # until it is answered
        sent.append(parcel)
        spool.stored("segments/other")
        spool.stored(parcel.name)
    assert sent == [rank_file, segment(0, "marks"), segment(0), segment(1)]
    assert spool.is_empty()
    assert stored(tmp_path) == {}
    (tmp_path / rank_file.name).write_bytes(b'{"end": 1}')
    assert not spool.is_empty()


def test_what_was_not_answered_is_sent_again(tmp_path: Path) -> None:
    spool = spooled(tmp_path, segment(0))
    first = spool.next()
    spool.begin(LARGEST)
    assert spool.next() == first
    assert not spool.is_empty()


def test_what_cannot_be_sent_stays(tmp_path: Path) -> None:
    other = Parcel(f"segments/{SegmentName('steps', 0, 4, 0)}", b"of another rank")
    marks = segment(FIRST_NUMBER, "marks")
    spool = spooled(tmp_path, segment(0, data=b"x" * LARGEST), segment(1), other, marks)
    sent = []
    while (parcel := spool.next()) is not None:
        sent.append(parcel)
        spool.stored(parcel.name)
    assert sent == [marks, segment(1)]
    assert spool.is_empty()
    assert len(stored(tmp_path)) == 3  # the watchdog numbers by what is there
