"""What the check of a run finds, what it says is lost, and what a repair brings back."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from app.cli import main
from ingest.errors import UserError
from ingest.index.doctor import CHANGED, DAMAGED, MISSING, NOT_INDEXED, Examined, examine, repair
from ingest.index.indexer import Indexer
from ingest.index.snapshots import DATABASE
from ingest.run import open_run
from tests.runs_builder import RunBuilder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doctor") / "run"
    job = RunBuilder(folder)
    job.rank_files()
    for rank in range(2):
        for step in range(4):
            job.step(rank, step, 1000 * step, 1000 * step + 900)
            for at in range(0, 900, 3):
                begin = 1000 * step + at
                job.span(rank, step, "forward", begin, begin + 2, name=f"block {at}")
    job.publish()
    with Indexer(folder) as indexer:
        indexer.refresh(merge=False)
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "run")


def checked(run: Path) -> Examined:
    return examine(run, lambda done, total: None)


def of_table(run: Path, table: str) -> Path:
    return min((run / "segments").glob(f"{table}-*"))


def test_a_sound_run_has_all_its_rows(run: Path) -> None:
    found = checked(run)
    assert found.is_sound
    files = list((run / "segments").glob("*.parquet"))
    assert found.num_files == len(files) == 4
    assert found.num_rows == sum(pq.read_metadata(file).num_rows for file in files)


def test_bytes_that_changed_behind_a_sound_footer_are_found(run: Path) -> None:
    path = of_table(run, "spans")
    data = bytearray(path.read_bytes())
    for at in range(40, min(400, len(data) // 2)):
        data[at] ^= 0xFF
    path.write_bytes(data)
    (trouble,) = checked(run).troubles
    assert trouble.what == DAMAGED
    assert trouble.is_lost
    assert "rows of spans, attempt 0" in trouble.text
    assert "steps 0 to 3 are lost" in trouble.text


def test_a_file_that_is_gone_is_named_with_what_it_held(run: Path) -> None:
    path = of_table(run, "steps")
    num_rows = pq.read_metadata(path).num_rows
    path.unlink()
    (trouble,) = checked(run).troubles
    assert trouble.what == MISSING
    assert f"{num_rows:,} rows of steps, attempt 0" in trouble.text


def test_a_file_that_the_index_lacks_or_has_otherwise_is_no_loss(run: Path) -> None:
    path = of_table(run, "spans")
    rows = pq.read_table(path)
    pq.write_table(rows.slice(0, rows.num_rows // 2), path)
    (changed,) = checked(run).troubles
    assert (changed.what, changed.is_lost) == (CHANGED, False)
    pq.write_table(rows, path.with_name(path.name.replace("00000000", "00000077")))
    assert {trouble.what for trouble in checked(run).troubles} == {CHANGED, NOT_INDEXED}
    repair(run, checked(run))
    assert checked(run).is_sound


def test_a_repair_keeps_what_is_sound_and_sets_the_rest_aside(run: Path) -> None:
    with open_run(run) as opened:
        before = opened.ask("steps").num_rows
    damaged, kept = sorted((run / "segments").glob("spans-*"))[:2]
    damaged.write_bytes(damaged.read_bytes()[:100])
    (run / "index" / DATABASE).write_bytes(b"no database")
    found = checked(run)
    assert found.index.startswith("the index is damaged")
    assert [trouble.path for trouble in found.troubles] == [f"segments/{damaged.name}"]
    assert repair(run, found) == run / "quarantine"
    assert not damaged.exists()
    assert (run / "quarantine" / damaged.name).exists()
    assert kept.exists()
    assert checked(run).is_sound
    with open_run(run) as opened:
        assert opened.ask("steps").num_rows == before
        assert any("set aside in quarantine" in problem for problem in opened.problems)


def test_a_damaged_file_is_kept_where_it_is_greater_than_what_ranks_may_leave_there(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.index.quarantine.MOST_BYTES", 10)
    path = of_table(run, "spans")
    path.write_bytes(path.read_bytes()[:50])
    repair(run, checked(run))
    assert (run / "quarantine" / path.name).stat().st_size == 50


def test_a_rank_file_that_cannot_be_read_is_named(run: Path) -> None:
    path = min((run / "ranks").glob("*.json"))
    path.write_text("[1, 2")
    (trouble,) = checked(run).troubles
    assert trouble.path == f"ranks/{path.name}"
    assert "what the rank said of itself is lost" in trouble.text


def test_a_run_that_somebody_indexes_is_left_alone(run: Path) -> None:
    with Indexer(run), pytest.raises(UserError, match="another process is indexing"):
        checked(run)


def test_merged_files_are_checked_like_others(run: Path) -> None:
    with Indexer(run) as indexer:
        for path in (run / "segments").iterdir():
            os.utime(path, (0, 0))  # so old that nothing more is expected
        assert indexer.refresh().merged_files > 0 or indexer.compaction.merge_due() > 0
    found = checked(run)
    assert found.is_sound
    assert list((run / "compacted").glob("*.parquet"))


def test_the_command_says_it_and_mends_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(run)]) == 0
    assert "everything is as the index has it" in capsys.readouterr().out
    path = of_table(run, "spans")
    path.write_bytes(path.read_bytes()[:50])
    assert main(["doctor", str(run)]) == 3
    text = capsys.readouterr().out
    assert "damaged" in text
    assert "nothing was changed" in text
    assert main(["doctor", str(run), "--repair", "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer["is_sound_now"]
    assert answer["troubles"][0]["is_lost"]
    assert main(["doctor", str(run)]) == 0


def test_a_folder_that_is_no_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(tmp_path)]) == 2
    assert "is no run folder" in capsys.readouterr().err
