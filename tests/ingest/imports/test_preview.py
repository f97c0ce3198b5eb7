"""What is read can be looked at while the rest is read; it goes with the import."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.imports import importer, pool
from ingest.imports.importer import import_paths
from ingest.imports.preview import FOUND, ImportProgress, import_progress, is_shown, shown_runs
from ingest.imports.worker_command import HERE_VARIABLE
from ingest.index.snapshots import OwnerLock
from ingest.run import Run, open_run

NUM_RANKS = 4


@pytest.fixture(autouse=True)
def _shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read by a process, and small imports are shown, too."""
    monkeypatch.delenv(HERE_VARIABLE)
    monkeypatch.setattr(pool, "num_cores", lambda: 1)
    monkeypatch.setattr(importer, "_SHOWN_FROM_BYTES", 1)


def job(folder: Path, ranks: range = range(NUM_RANKS)) -> Path:
    """A trace of torch.profiler for each rank, with two steps of one operator."""
    folder.mkdir()
    for number, rank in enumerate(ranks):
        events = [
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": dur}
            for step in range(2)
            for cat, name, at, dur in (
                ("user_annotation", f"ProfilerStep#{step}", 1000.0 * step, 900.0),
                ("cpu_op", "aten::mm", 1000.0 * step + 10 * rank, 100.0),
            )
        ]
        trace = {
            "schemaVersion": 1,
            "traceEvents": events,
            "baseTimeNanoseconds": 10**18,
            "distributedInfo": {"rank": rank, "world_size": NUM_RANKS, "backend": "gloo"},
        }
        (folder / f"{number}.json").write_text(json.dumps(trace))
    return folder


def seen_while_reading(
    files: Path, runs: Path, look: Callable[[Path], None]
) -> tuple[Path | None, list[str]]:
    """Import, and call `look` with what is shown first; the run, and what on_shown was given."""
    names: list[str] = []

    def on_shown(run: str) -> None:
        names.append(run)
        [folder] = shown_runs(runs)
        look(folder)

    return import_paths([files], runs, on_shown=on_shown), names


def test_what_is_read_is_a_run_without_clocks(tmp_path: Path) -> None:
    def look(folder: Path) -> None:
        assert is_shown(folder)
        with open_run(folder) as run:
            assert run.state == "importing"
            ranks = {info["rank"] for info in run.ranks}
            assert ranks
            spans = run.sql("SELECT DISTINCT rank FROM spans").column("rank").to_pylist()
            assert set(spans) <= ranks
            assert run.ask("step_times", step_min=0, step_max=1).num_rows
            errors = run.ask("clock_error").to_pylist()
            assert {row["method"] for row in errors} == {None}

    folder, names = seen_while_reading(job(tmp_path / "job"), tmp_path / "runs", look)
    assert folder is not None
    assert names == [folder.name]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [folder.name]
    with open_run(folder) as run:
        assert run.state == "finished"
        assert len(run.ranks) == NUM_RANKS


def test_a_run_is_the_same_whether_it_was_shown_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = job(tmp_path / "job")
    shown, _ = seen_while_reading(files, tmp_path / "a", lambda _: None)
    monkeypatch.setattr(importer, "_SHOWN_FROM_BYTES", 1 << 40)
    whole = import_paths([files], tmp_path / "b")
    assert shown is not None
    names = [sorted(path.name for path in run.rglob("*")) for run in (shown, whole)]
    assert names[0] == names[1]


def test_a_second_file_of_a_rank_is_not_shown(tmp_path: Path) -> None:
    """It may be left out at the end: which of two counts goes by their order."""
    files = job(tmp_path / "job", range(1))
    (files / "other.json").write_bytes((files / "0.json").read_bytes().replace(b"mm", b"bmm"))

    def look(folder: Path) -> None:
        with open_run(folder) as run:
            assert run.sql("SELECT count(DISTINCT name) AS n FROM spans").to_pylist() == [{"n": 1}]

    folder, _ = seen_while_reading(files, tmp_path / "runs", look)
    assert folder is not None


@pytest.mark.parametrize("cores", [1, 2])
def test_times_count_from_the_same_moment_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    """Files that are read later begin earlier, and the smallest file is no trace."""
    monkeypatch.setattr(pool, "num_cores", lambda: cores)
    monkeypatch.setattr(pool, "_BYTES_PER_PROCESS", 1)
    files = job(tmp_path / "job")
    for number in range(NUM_RANKS):
        path = files / f"{number}.json"
        trace = json.loads(path.read_text())
        for event in trace["traceEvents"]:
            event["ts"] += 10**6 * (NUM_RANKS - number)
        path.write_text(json.dumps(trace) + " " * 1000 * number)
    (files / "readme.txt").write_text("a night's run")
    seen: list[int] = []

    def look(folder: Path) -> None:
        with open_run(folder) as run:
            seen.append(run.info["created_ns"])

    folder, _ = seen_while_reading(files, tmp_path / "runs", look)
    assert folder is not None
    with open_run(folder) as run:
        assert seen == [run.info["created_ns"]] == [10**18 + NUM_RANKS * 10**9]
        assert run.ask("run_summary").to_pylist()[0]["started_ns"] < seen[0]


def test_where_the_file_with_the_start_is_left_out_times_count_from_the_earliest(
    tmp_path: Path,
) -> None:
    """Of two days in one folder the second one is left out, whatever its size."""
    files = job(tmp_path / "job", range(1))
    trace = json.loads((files / "0.json").read_text())
    trace["baseTimeNanoseconds"] += 86_400 * 10**9
    (files / "1.json").write_text(json.dumps(trace))
    (files / "0.json").write_text((files / "0.json").read_text() + " " * 100)
    folder, _ = seen_while_reading(files, tmp_path / "runs", lambda _: None)
    assert folder is not None
    assert json.loads((folder / "run.json").read_text())["created_ns"] == 10**18


def test_an_import_given_up_takes_it_along(tmp_path: Path) -> None:
    def give_up(folder: Path) -> None:
        Run(folder).refresh()  # as a server that follows it would
        raise UserError("the import was cancelled")

    with pytest.raises(UserError, match="cancelled"):
        seen_while_reading(job(tmp_path / "job"), tmp_path / "runs", give_up)
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_a_killed_import_showed_is_shown_no_more(tmp_path: Path) -> None:
    shown = tmp_path / ".import-killed" / "shown" / "job-1"
    shown.mkdir(parents=True)
    (shown / "run.json").write_text("{}")
    (tmp_path / ".import-killed" / FOUND).mkdir()
    assert shown_runs(tmp_path) == []
    with OwnerLock(tmp_path / ".import-killed" / FOUND) as lock:
        lock.acquire()
        assert shown_runs(tmp_path) == [shown]


def test_without_links_nothing_is_shown(tmp_path: Path) -> None:
    worker = tmp_path / "no_links.py"
    worker.write_text(
        "import os\n"
        "def refuse(*_): raise OSError(95, 'Operation not supported')\n"
        "os.link = refuse\n"
        "from ingest.imports import worker\n"
        "worker.main()\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        command = [sys.executable, "-P", str(worker)]
        patch.setattr(pool, "worker_command", lambda: command)
        shown: list[str] = []
        folder = import_paths([job(tmp_path / "job")], tmp_path / "runs", on_shown=shown.append)
    assert shown == []
    assert len(list((folder / "ranks").iterdir())) == NUM_RANKS


def test_progress_in_words(tmp_path: Path) -> None:
    assert str(ImportProgress(3, 16, 40, 200)) == "3 of 16 files, 20 % read"
    assert str(ImportProgress(0, 1, 40, 200)) == "20 % read"
    assert str(import_progress(tmp_path)) == "0 % read"
