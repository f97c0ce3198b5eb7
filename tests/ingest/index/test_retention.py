"""Content goes when it is too old or too much, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli import main
from ingest.index.indexer import Indexer
from ingest.index.retention import FOREVER, KEEP_ALL, Keep, content_files
from ingest.run import open_run
from tests.frame_runs import content_run, kept


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("text", "ages"),
    [
        (FOREVER, [40, 20, 1]),
        ("36h", [1]),
        ("3w,1TB", [20, 1]),
        ("0.000001MB", []),
    ],
)
def test_too_old_or_too_much_goes_and_readers_get_time(
    tmp_path: Path, text: str, ages: list[int]
) -> None:
    folder = content_run(tmp_path / "run").folder
    others = {path for path in (folder / "segments").iterdir() if "frames-" not in path.name}
    with Indexer(folder, Keep.parse(text)) as indexer:
        indexer.refresh()
        assert len(content_files(folder)) == 3, "they are deleted later"
        with open_run(folder) as run:
            assert kept(run) == ages
            spans = run.sql("SELECT count(*) AS n FROM spans").to_pylist()
        indexer.compaction.grace_s = 0.0
        indexer.refresh()
    assert len(content_files(folder)) == len(ages)
    assert others <= set((folder / "segments").iterdir())
    with open_run(folder) as run:  # a rebuilt index does not know what was deleted
        assert kept(run) == ages
        assert run.sql("SELECT count(*) AS n FROM spans").to_pylist() == spans


def test_of_too_many_bytes_the_oldest_go(tmp_path: Path) -> None:
    folder = content_run(tmp_path / "run").folder
    sizes = [file.stat().st_size for file in (folder / "segments").glob("frames-*")]
    two_of_three = Keep(num_bytes=sum(sizes) - min(sizes))
    with Indexer(folder, two_of_three) as indexer:
        indexer.refresh()
    with open_run(folder) as run:
        assert kept(run) == [20, 1]


def test_others_who_open_a_run_delete_nothing(tmp_path: Path) -> None:
    folder = content_run(tmp_path / "run").folder
    with Indexer(folder) as indexer:
        indexer.compaction.grace_s = 0.0
        indexer.refresh()
        indexer.refresh()
    assert len(content_files(folder)) == 3


@pytest.mark.parametrize("text", ["", "30", "30 years", "1d,2d", "-1d", "nan", "1e9GB", "30d;rm"])
def test_what_is_no_bound_is_refused_with_a_sentence(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="give an age such as 30d"):
        Keep.parse(text)
    if text:
        for verb in ("index", "serve"):
            assert main([verb, str(tmp_path), f"--keep-content={text}"]) == 2
            assert "give an age such as 30d" in capsys.readouterr().err


def test_the_verb_deletes_what_is_older_than_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = content_run(tmp_path / "run").folder
    monkeypatch.setattr("ingest.index.compaction.GRACE_S", 0.0)
    assert Keep.parse(FOREVER) == KEEP_ALL
    monkeypatch.setenv("RANKSCOPE_KEEP_CONTENT", "30d")
    assert main(["index", str(folder)]) == 0
    assert len(content_files(folder)) == 2
    monkeypatch.delenv("RANKSCOPE_KEEP_CONTENT")
    assert main(["index", str(folder), "--keep-content", "2d"]) == 0
    assert len(content_files(folder)) == 1
