"""retention.json: what is written is read again, and what nobody wrote is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.run_folder import run_files
from ingest.run_folder.retention_file import Kept, Retention, read_retention, write_retention
from ingest.run_folder.step_ranges import StepRange, united


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert read_retention(tmp_path) == Retention()
    kept = Kept(StepRange(0, 4, 4), "the link overview?steps=4")
    retention = Retention().with_more([StepRange(1, 0, 9), StepRange(0, 0, 3)], [kept])
    write_retention(tmp_path, retention)
    assert read_retention(tmp_path) == retention
    more = retention.with_more([StepRange(0, 2, 3), StepRange(0, 5, 6)], [kept])
    assert more.removed == (StepRange(0, 0, 3), StepRange(0, 5, 6), StepRange(1, 0, 9))
    assert more.kept == (kept,)


def test_ranges_are_united_within_an_attempt() -> None:
    ranges = [StepRange(0, 5, 9), StepRange(0, 0, 4), StepRange(1, 10, 11), StepRange(0, 7, 8)]
    assert united(ranges) == [StepRange(0, 0, 9), StepRange(1, 10, 11)]
    assert str(StepRange(0, 5, 5)) == "step 5"
    assert str(StepRange(2, 0, 4000)) == "steps 0 to 4,000 of attempt 2"
    assert StepRange(0, 5, 9).overlaps(StepRange(0, 9, 12))
    assert not StepRange(0, 5, 9).overlaps(StepRange(1, 5, 9))
    assert StepRange(0, 5, 9).covers(StepRange(0, 6, 9))
    assert not StepRange(0, 5, 9).covers(StepRange(0, 9, 10))


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"schema": "1.0", "removed": 5}',
        '{"schema": "1.0", "removed": [{"attempt": 0, "first": 9, "last": 3}]}',
        '{"schema": "1.0", "removed": [{"attempt": -1, "first": 0, "last": 3}]}',
        '{"schema": "1.0", "removed": [{"attempt": 0, "first": -1, "last": 3}]}',
        '{"schema": "1.0", "removed": [], "kept": [{"attempt": 0, "first": 1, "last": 3}]}',
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "retention.json").write_text(content)
    with pytest.raises(UserError, match=r"retention\.json .* delete it together with .*index/"):
        read_retention(tmp_path)


def test_one_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "retention.json").write_text('{"schema": "2.0", "removed": []}')
    with pytest.raises(UserError, match=r"retention\.json"):
        read_retention(tmp_path)


def test_nobody_is_told_to_delete_what_only_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_path: Path, _most: int) -> bytes:
        raise PermissionError

    (tmp_path / "retention.json").touch()
    monkeypatch.setattr(run_files, "read_plain_file", refused)
    with pytest.raises(UserError, match=r"retention\.json cannot be read; check its permissions$"):
        read_retention(tmp_path)
