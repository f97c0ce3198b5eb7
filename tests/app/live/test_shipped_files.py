"""Files of ranks are stored once, wherever server or rank is interrupted."""

from __future__ import annotations

import errno
import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.live.segment_check import problem_of
from app.live.shipped_files import ShippedFiles, has_ended
from ingest.errors import UserError
from ingest.index.quarantine import Quarantine
from tests.app.live.run_files import run_file
from tests.runs_builder import table
from trace_hooks.agent.upload_spool import Spool
from trace_hooks.protocol.file_transfer import Parcel, decode
from trace_hooks.schema import SCHEMA_VERSION, TABLES, SegmentName
from trace_hooks.watchdog.reports import FIRST_NUMBER

LARGEST = 10_000


def segment(
    number: int, table: str = "steps", attempt: int = 0, data: bytes | None = None
) -> Parcel:
    content = rows_of(table, attempt) if data is None else data
    return Parcel(f"segments/{SegmentName(table, attempt, 3, number)}", content)


@cache
def rows_of(name: str, attempt: int) -> bytes:
    """A file of one row of rank 3."""
    times = {"ts_ns": 1, "start_ns": 1, "dur_ns": 1, "kind": "note", "phase": "step"}
    columns = {column.name for column in TABLES[name].columns}
    row = {"attempt": attempt, "rank": 3, "step": 0, **times}
    buffer = io.BytesIO()
    rows = table(name, [{key: value for key, value in row.items() if key in columns}])
    pq.write_table(rows, buffer)
    return buffer.getvalue()


def received(folder: Path, rank: int = 3) -> ShippedFiles:
    folder.mkdir(exist_ok=True)
    return ShippedFiles(folder, rank, problem_of)


def stored(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "segments").iterdir()}


@pytest.mark.parametrize("name", ["run.json", "ranks/0001-00003.json"])
def test_a_file_travels_as_it_is(name: str) -> None:
    for parcel in (Parcel(name, b'{"a": 1}'), segment(7, data=b"\0\xff" * 9)):
        assert decode(parcel.encode()) == parcel
    assert segment(7).rank == Parcel("ranks/0001-00003.json", b"").rank == 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"RSP1",
        b"RSP1\xff\xff\xff\xff",
        b"RSP1\2\0\0\0[]",
        b"RSP1\2\0\0\0{}",
        b'RSP1\x0a\0\0\0{"name":1}',
    ],
)
def test_what_is_no_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="file"):
        decode(content)


def test_what_comes_again_is_not_stored_again(tmp_path: Path) -> None:
    files = received(tmp_path)
    for parcel in (segment(0), segment(1), segment(0, "spans"), segment(0, attempt=1)):
        files.store(parcel)
        files.store(parcel)
    assert len(stored(tmp_path)) == 4
    for path in (tmp_path / "segments").iterdir():
        path.unlink()  # the indexer has merged them
    files.store(segment(1))
    received(tmp_path).store(segment(1))  # a server that was started since
    assert stored(tmp_path) == {}
    received(tmp_path).store(segment(2))
    assert list(stored(tmp_path)) == ["steps-0000-00003-00000002.parquet"]


def test_the_watchdog_counts_by_itself(tmp_path: Path) -> None:
    files = received(tmp_path)
    for number in (0, FIRST_NUMBER, 1, FIRST_NUMBER + 1):
        files.store(segment(number, "marks"))
    assert len(stored(tmp_path)) == 4


def interrupted_at(
    monkeypatch: pytest.MonkeyPatch, call: str, number: int, error: BaseException
) -> None:
    """Have one call of a method of Path fail, as if the process were killed before it, say."""
    real, left = getattr(Path, call), [number]

    def fails(self: Path, *given: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise error
        return real(self, *given, **more)

    monkeypatch.setattr(Path, call, fails)


def killed_while_it_stores(
    parcel: Parcel, folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    with monkeypatch.context() as patch:
        interrupted_at(patch, call, number, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            received(folder).store(parcel)


@pytest.mark.parametrize(
    ("call", "number"), [("unlink", 1), ("open", 1), ("replace", 1), ("replace", 2)]
)
def test_a_server_that_is_killed_at_any_moment_stores_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    received(tmp_path).store(segment(0))
    killed_while_it_stores(segment(1), tmp_path, monkeypatch, call, number)
    before = stored(tmp_path)
    received(tmp_path).store(segment(1))
    assert len(stored(tmp_path)) == 2
    assert before.items() <= stored(tmp_path).items()
    assert not list((tmp_path / "incoming").iterdir())


@pytest.mark.parametrize(
    ("call", "number"), [("unlink", 1), ("open", 1), ("replace", 1), ("replace", 2)]
)
def test_a_disk_that_was_full_at_any_moment_stores_it_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    files = received(tmp_path)
    files.store(segment(0))
    with monkeypatch.context() as patch:
        interrupted_at(patch, call, number, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(UserError, match="make room"):
            files.store(segment(1))
    files.store(segment(1))
    assert len(stored(tmp_path)) == 2


def rank_file(attempt: int = 0, rank: int = 3, **more: Any) -> Parcel:
    info = {"schema": SCHEMA_VERSION, "attempt": attempt, "rank": rank, "world_size": 8}
    return Parcel(f"ranks/{attempt:04d}-00003.json", json.dumps({**info, **more}).encode())


def test_another_start_with_the_same_number_is_refused(tmp_path: Path) -> None:
    files = received(tmp_path)
    files.store(rank_file(started_ns=5))
    files.store(rank_file(started_ns=5, end={"ts_ns": 1}))
    with pytest.raises(UserError, match="another start of this job was 0000-00003 already"):
        files.store(rank_file(started_ns=6))


def test_the_run_file_is_the_first_ones(tmp_path: Path) -> None:
    files = received(tmp_path / "night", 0)
    files.store(run_file("night", framework="a"))
    files.store(run_file("night", framework="b"))
    assert json.loads((tmp_path / "night" / "run.json").read_text())["framework"] == "a"


@pytest.mark.parametrize(
    ("parcel", "sentence"),
    [
        (rank_file(rank=4), "of another rank or attempt"),
        (Parcel("ranks/0000-00003.json", b"{"), "cannot be read"),
        (Parcel("ranks/0000-00003.json", b"[" * 100_000), "cannot be read"),
        (Parcel("ranks/0000-00003.json", b'{"schema": "9.0"}'), "upgrade rankscope"),
        (rank_file(hooks="x" * (1 << 20)), "at most 1,048,576"),
        (rank_file(world_size=1 << 40), "cannot be read"),
        (run_file("day"), "of another run"),
        (run_file("night", source="kineto"), "of another run"),
        (run_file("night", importing=True), "of another run"),
        (Parcel("run.json", b"\xff"), "cannot be read"),
    ],
)
def test_json_that_is_not_what_it_claims_to_be_is_set_aside(
    tmp_path: Path, parcel: Parcel, sentence: str
) -> None:
    folder = tmp_path / "night"
    assert sentence in received(folder).store(parcel)
    assert not (folder / parcel.name).exists()
    (problem,) = Quarantine(folder).sentences()
    assert sentence in problem
    assert "sent by rank 3" in problem
    assert str(tmp_path) not in problem


def test_what_is_not_a_segment_is_set_aside_once_and_the_next_one_is_stored(tmp_path: Path) -> None:
    files = received(tmp_path)
    bad = segment(0, data=b"rows")
    assert "cannot be read as Parquet" in files.store(bad)
    assert files.store(segment(1)) == files.store(bad) == received(tmp_path).store(bad) == ""
    assert list(stored(tmp_path)) == ["steps-0000-00003-00000001.parquet"]
    kept = tmp_path / "quarantine" / "steps-0000-00003-00000000.parquet"
    assert kept.read_bytes() == b"rows"
    assert len(Quarantine(tmp_path).sentences()) == 1


@pytest.mark.parametrize(
    ("call", "number"),
    [("unlink", 1), ("open", 1), ("replace", 1), ("replace", 2), ("replace", 3)],
)
def test_a_server_that_is_killed_at_any_moment_shows_no_file_that_is_unfit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    received(tmp_path).store(segment(0))
    killed_while_it_stores(segment(1, data=b"rows"), tmp_path, monkeypatch, call, number)
    received(tmp_path).store(segment(1, data=b"rows"))
    received(tmp_path).store(segment(2))
    assert [path[-10:] for path in sorted(stored(tmp_path))] == ["00.parquet", "02.parquet"]
    assert len(Quarantine(tmp_path).sentences()) == 1
    assert not list((tmp_path / "incoming").iterdir())


def test_the_quarantine_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.index.quarantine.MOST_FILES", 3)
    files = received(tmp_path)
    for number in range(5):
        files.store(segment(number, data=b"rows"))
    assert len(list((tmp_path / "quarantine").glob("*.parquet"))) == 3
    sentences = Quarantine(tmp_path).sentences()
    assert len(sentences) == 4
    assert sentences[-1] == "2 more files of ranks were not what they claimed to be"
    monkeypatch.setattr("ingest.index.quarantine.MOST_BYTES", 10)
    other = received(tmp_path / "other")
    other.store(segment(0, data=b"x" * 11))
    assert "dropped" in Quarantine(tmp_path / "other").sentences()[0]
    assert not list((tmp_path / "other" / "quarantine").glob("*.parquet"))
    assert not list((tmp_path / "other" / "incoming").glob("*.parquet"))


def test_what_comes_after_a_rank_has_ended_an_attempt_is_set_aside(tmp_path: Path) -> None:
    files = received(tmp_path)
    last = rank_file(end={"ts_ns": 1})
    for parcel in (segment(0), last):
        files.store(parcel)
    assert not has_ended(tmp_path, 0, 3)  # the rank announces its end once all has been sent
    files.end(0)
    for later in (files, received(tmp_path)):  # as well of a server that was started since
        assert has_ended(tmp_path, 0, 3)
        assert later.store(segment(0)) == later.store(last) == ""  # they were sent again
    late = "arrived after rank 3 had ended attempt 0"
    assert late in files.store(segment(1))
    assert late in received(tmp_path).store(rank_file(end={"ts_ns": 2}))
    assert json.loads((tmp_path / last.name).read_text())["end"] == {"ts_ns": 1}
    assert files.store(segment(0, attempt=1)) == ""
    assert len(stored(tmp_path)) == 2
    assert sum(late in sentence for sentence in Quarantine(tmp_path).sentences()) == 2


def test_late_files_do_not_keep_a_rank_from_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.live.shipped_files.MOST_UNFIT", 2)
    files = received(tmp_path)
    files.end(0)
    for number in range(5):
        assert "had ended attempt 0" in files.store(segment(number))
    assert files.store(segment(0, attempt=1)) == ""


def test_one_rank_of_bad_files_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.live.shipped_files.MOST_UNFIT", 2)
    bad, other = received(tmp_path), received(tmp_path, 4)
    for number in range(2):
        bad.store(segment(number, data=b"rows"))
    with pytest.raises(UserError, match="2 files of rank 3 were not what they claimed to be"):
        bad.store(segment(2))
    assert other.store(Parcel("ranks/0000-00004.json", rank_file(rank=4).data)) == ""


@pytest.mark.parametrize("content", ["", "{", "[]", "5", "[" * 100_000])
def test_a_rank_file_that_a_crash_has_damaged_is_written_again(
    tmp_path: Path, content: str
) -> None:
    files = received(tmp_path)
    files.store(rank_file(started_ns=5))
    (tmp_path / rank_file().name).write_text(content)
    assert files.store(rank_file(started_ns=5)) == ""
    assert json.loads((tmp_path / rank_file().name).read_text())["started_ns"] == 5


@pytest.mark.parametrize("content", ["", "[]", '{"steps": []}', '{"steps": 1e999}', "[" * 100_000])
def test_a_note_that_is_damaged_gets_a_sentence(tmp_path: Path, content: str) -> None:
    received(tmp_path).store(segment(0))
    (tmp_path / "received" / "00003.json").write_text(content)
    with pytest.raises(UserError, match="is damaged"):
        received(tmp_path).store(segment(1))
    assert not has_ended(tmp_path, 0, 3)


def test_ranks_that_write_into_the_served_folder_send_nothing(tmp_path: Path) -> None:
    (tmp_path / "job-secret").touch()
    with pytest.raises(UserError, match="unset TRACE_HOOKS_SHIP"):
        received(tmp_path).store(segment(0))


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
