"""Steps that retention.json names go from the index at once, and from files in time."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import UserError
from ingest.index import compaction
from ingest.index.indexer import Indexer
from ingest.run import Run, open_run
from ingest.run_folder.retention_file import Retention, write_retention
from ingest.run_folder.step_ranges import StepRange
from tests.runs_builder import RunBuilder

NUM_STEPS, NUM_RANKS = 12, 3
DERIVED = ("step_rows", "step_rollup", "kind_rollup", "collective_rollup", "group_members")
RAW = ("spans", "collectives", "steps", "groups", "memory")
EARLY, ISLAND = StepRange(0, 0, 3), StepRange(0, 5, 6)
LEFT = [4, *range(7, NUM_STEPS)]


def add_step(run: RunBuilder, step: int, attempt: int = 0) -> None:
    for rank in range(NUM_RANKS):
        t = step * 100.0
        run.step(rank, step, t + 5, t + 100, attempt=attempt)
        run.span(rank, step, "forward", t + 10, t + 60 + rank, attempt=attempt)
        run.span(rank, step, "dp_comm", t + 60, t + 130, attempt=attempt)  # into the next step
        run.collective(rank, step, 7, step, t + 60 + rank, t + 90, attempt=attempt)
        run.add("memory", rank, step, attempt, ts_ns=step)


@pytest.fixture
def run(tmp_path: Path) -> RunBuilder:
    """A run of steps in two attempts, some of them in files of their own."""
    run = RunBuilder(tmp_path / "run", NUM_RANKS)
    run.rank_files()
    run.group(7, list(range(NUM_RANKS)), "dp")
    for rank in range(NUM_RANKS):
        run.span(rank, -1, "host", -100, -50)
    for step in range(NUM_STEPS):
        add_step(run, step)
        if step in (3, 9):
            run.publish()
    run.publish()
    add_step(run, 0, attempt=1)
    run.publish()
    return run


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "GRACE_S", 0.0)


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def remove(folder: Path, *ranges: StepRange) -> None:
    write_retention(folder, Retention(removed=ranges))


def index(folder: Path, passes: int = 2) -> None:
    with Indexer(folder) as indexer:
        for _ in range(passes):
            indexer.refresh()


def steps_in(run: Run, table: str, attempt: int = 0) -> list[int]:
    text = f"SELECT DISTINCT step FROM {table} WHERE attempt = {attempt} ORDER BY step"
    return run.execute(text, {}).column("step").to_pylist()


def derived(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    with open_run(folder) as run:
        for table in DERIVED:
            yield table, run.index_rows(f"SELECT * FROM {table} ORDER BY ALL")


def made_anew(folder: Path, into: Path) -> Path:
    shutil.copytree(folder, into, ignore=shutil.ignore_patterns("index"))
    return into


def test_all_rows_of_removed_steps_go_and_no_others(run: RunBuilder) -> None:
    index(run.folder)
    remove(run.folder, EARLY, ISLAND)
    index(run.folder)
    with open_run(run.folder) as opened:
        for table in ("collectives", "steps", "memory"):
            assert steps_in(opened, table) == LEFT
        assert steps_in(opened, "spans") == [-1, *LEFT], "what came before the first step stays"
        assert steps_in(opened, "groups") == [-1]
        assert steps_in(opened, "steps", attempt=1) == [0], "other attempts stay"
        assert opened.execute("SELECT count(*) AS n FROM spans", {}).to_pylist() == [
            {"n": NUM_RANKS * (1 + 2 * len(LEFT) + 2)}
        ]
        assert opened.problems == []


def test_the_index_is_the_one_that_the_files_give(run: RunBuilder, tmp_path: Path) -> None:
    index(run.folder)
    remove(run.folder, EARLY, ISLAND)
    index(run.folder)
    anew = made_anew(run.folder, tmp_path / "anew")
    index(anew, passes=1)
    assert dict(derived(run.folder)) == dict(derived(anew))
    (anew / "retention.json").unlink()
    shutil.rmtree(anew / "index")
    assert dict(derived(run.folder)) == dict(derived(anew)), "the files have nothing else"


def test_what_readers_see_changes_before_any_file_does(run: RunBuilder) -> None:
    index(run.folder)
    files = {path.name for path in run.folder.rglob("*.parquet")}
    remove(run.folder, EARLY)
    with Indexer(run.folder) as indexer:
        assert indexer.refresh(merge=False).published
    assert {path.name for path in run.folder.rglob("*.parquet")} == files
    with Run(run.folder) as opened:
        rows = opened.index_rows("SELECT DISTINCT step FROM step_rollup WHERE attempt = 0")
    assert {row["step"] for row in rows} == {-1, *range(4, NUM_STEPS)}


def test_files_that_come_late_bring_nothing_back(run: RunBuilder) -> None:
    remove(run.folder, EARLY)
    index(run.folder, passes=1)  # which finds other news, too
    with Run(run.folder) as opened:
        assert steps_in(opened, "step_rollup") == [-1, *range(4, NUM_STEPS)]
    add_step(run, 2)
    add_step(run, NUM_STEPS)
    run.publish()
    index(run.folder)
    with open_run(run.folder) as opened:
        for table in ("spans", "steps", "step_rollup"):
            assert [step for step in steps_in(opened, table) if step >= 0] == [
                *range(4, NUM_STEPS + 1)
            ]


def test_a_file_without_a_row_that_goes_is_read_once_and_stays(run: RunBuilder) -> None:
    remove(run.folder, EARLY)
    index(run.folder)
    remove(run.folder, StepRange(0, 2, 3))  # gone already: the ranges of some files have them
    with Indexer(run.folder) as indexer:
        indexer.refresh()
        assert indexer.refresh().merged_files == 0


def test_removed_steps_do_not_come_back_where_the_file_forgets_them(run: RunBuilder) -> None:
    remove(run.folder, EARLY)
    index(run.folder)
    remove(run.folder, ISLAND)
    index(run.folder)
    with open_run(run.folder) as opened:
        assert steps_in(opened, "steps") == LEFT


def test_where_the_run_may_only_be_read_its_index_leaves_the_steps_out(
    run: RunBuilder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    remove(run.folder, EARLY)
    (run.folder / "index").symlink_to(tmp_path)  # such an index is left alone
    files = {path.name for path in run.folder.rglob("*.parquet")}
    index(run.folder)
    assert {path.name for path in run.folder.rglob("*.parquet")} == files
    with open_run(run.folder) as opened:
        rows = opened.index_rows("SELECT min(step) AS first FROM step_rollup WHERE step >= 0")
        assert rows == [{"first": 0}], "that of the other attempt"
        assert steps_in(opened, "step_rollup") == [-1, *range(4, NUM_STEPS)]


def test_a_damaged_file_is_one_sentence_and_removes_nothing(run: RunBuilder) -> None:
    index(run.folder, passes=1)
    (run.folder / "retention.json").write_text("{")
    with pytest.raises(UserError, match=r"retention\.json"):
        index(run.folder)
    with Run(run.folder) as opened:
        assert steps_in(opened, "steps") == list(range(NUM_STEPS))


def test_on_a_full_disk_files_go_that_need_not_be_written_again(
    run: RunBuilder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index(run.folder, passes=1)
    files = set(run.folder.rglob("segments/*.parquet"))
    remove(run.folder, EARLY, ISLAND)
    with monkeypatch.context() as full:
        full.setattr(compaction, "publish_merged", no_room)
        with pytest.raises(UserError, match="No space left on device"):
            index(run.folder, passes=1)
    assert files - set(run.folder.rglob("segments/*.parquet")), "which makes room"
    with Run(run.folder) as opened:
        assert [step for step in steps_in(opened, "step_rollup") if step >= 0] == LEFT
    index(run.folder)
    anew = made_anew(run.folder, tmp_path / "anew")
    index(anew, passes=1)
    assert dict(derived(run.folder)) == dict(derived(anew))


def test_no_file_is_written_again_that_would_fill_the_disk(
    run: RunBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(run.folder, passes=1)
    remove(run.folder, EARLY, ISLAND)
    usage = shutil.disk_usage(run.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
    with pytest.raises(UserError, match="No space left on device"):
        index(run.folder, passes=1)
    assert list(run.folder.glob("compacted/*")) == []
