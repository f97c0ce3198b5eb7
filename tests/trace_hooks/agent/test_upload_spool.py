"""Files that wait to be sent: in order, removed once the server has stored them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_hooks.agent.upload_spool import Spool
from trace_hooks.schema import SegmentName
from trace_hooks.watchdog.reports import FIRST_NUMBER


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("segments", "ranks"):
        (tmp_path / name).mkdir()
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "ranks" / "0000-00000.json").write_text("{}")
    for number in (0, 1):
        segment(tmp_path, "steps", number)
    segment(tmp_path, "steps", 0, rank=1)
    return tmp_path


def segment(folder: Path, table: str, number: int, rank: int = 0) -> Path:
    path = folder / "segments" / str(SegmentName(table, 0, rank, number))
    path.write_bytes(b"rows")
    return path


def sent(spool: Spool) -> list[str]:
    """Names of all files, each acknowledged at once."""
    names = []
    spool._due_s = 0.0  # the test is in a hurry
    while (parcel := spool.next()) is not None:
        names.append(parcel.name)
        spool.stored(parcel.name)
        spool._due_s = 0.0
    return names


def test_json_goes_first_and_stored_segments_are_removed(folder: Path) -> None:
    spool = Spool(folder, 0)
    spool.begin(1 << 20)
    assert sent(spool) == [
        "run.json",
        "ranks/0000-00000.json",
        "segments/steps-0000-00000-00000000.parquet",
        "segments/steps-0000-00000-00000001.parquet",
    ]
    assert [path.name for path in (folder / "segments").glob("*")] == [
        "steps-0000-00001-00000000.parquet"
    ]
    assert spool.is_empty()


def test_a_changed_json_file_is_sent_again(folder: Path) -> None:
    spool = Spool(folder, 0)
    spool.begin(1 << 20)
    sent(spool)
    (folder / "ranks" / "0000-00000.json").write_text('{"end": null}')
    assert not spool.is_empty()
    assert sent(spool) == ["ranks/0000-00000.json"]


def test_a_new_connection_gets_what_was_not_acknowledged(folder: Path) -> None:
    spool = Spool(folder, 0)
    spool.begin(1 << 20)
    first = spool.next()
    assert first is not None
    assert spool.is_sending
    assert spool.next() is None
    spool.begin(1 << 20)
    again = spool.next()
    assert again == first


def test_the_watchdogs_segments_stay(folder: Path) -> None:
    mark = segment(folder, "marks", FIRST_NUMBER)
    spool = Spool(folder, 0)
    spool.begin(1 << 20)
    assert f"segments/{mark.name}" in sent(spool)
    assert mark.exists()
    assert spool.is_empty()


def test_a_file_that_is_too_large_stays(folder: Path) -> None:
    large = segment(folder, "steps", 2)
    large.write_bytes(bytes(5_000))
    spool = Spool(folder, 0)
    spool.begin(4_000)
    assert f"segments/{large.name}" not in sent(spool)
    assert large.exists()
