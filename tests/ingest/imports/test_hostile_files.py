"""Run folders that lie: each is one sentence or a listed problem, never an exception or a hang."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from ingest.errors import UserError, printable
from ingest.index.indexer import Indexer
from ingest.run import open_run
from ingest.run_folder import rank_files
from ingest.run_folder.rank_files import RankFiles
from ingest.run_folder.run_files import existing, read_run_info
from tests.runs_builder import RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout

HOSTILE_RANKS = [
    {"attempt": "x"},
    {"attempt": 2**15},
    {"rank": None},
    {"rank": 10**400},
    {"rank": 1.5},
    {"rank": -5},
    {"world_size": "many"},
    {"pid": {}},
    {"started_ns": float("nan")},
    {"started_ns": 10**300},
    {"host": 5},
    {"host": "\ud800"},
    {"device": [1]},
    {"end": [1]},
    {"end": "x"},
    {"end": {"ts_ns": "x"}},
    {"end": {"status": [1]}},
    {"coords": [1]},
    {"coords": {"pp": "x"}},
    {"coords": {"pp": 10**30}},
    {"layout": [1]},
    {"layout": {"axes": [1]}},
    {"layout": {"axes": {"pp": "x"}}},
    {"layout": {"axes": {"pp": 2**20, "dp": 2**20}}},
    {"layout": {"axes": {"pp": 0}}},
    {"schema": 1},
    {"schema": "99.0"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A run with every hostile rank's file, and invalid segments."""
    builder = two_rank_run(tmp_path_factory.mktemp("hostile") / "run", num_steps=1)
    ranks, segments = builder.folder / "ranks", builder.folder / "segments"
    good = json.loads((ranks / "0000-00000.json").read_text())
    for number, change in enumerate(HOSTILE_RANKS):
        (ranks / f"0001-{number:05d}.json").write_text(json.dumps(good | change))
    (ranks / "0002-00000.json").write_text("[" * 100_000)
    (ranks / "0002-00001.json").write_bytes(b"\xff\xfe")
    (ranks / "0002-00002.json").mkdir()
    os.mkfifo(ranks / "0002-00003.json")
    (ranks / "0002-00004.json").write_text(json.dumps(good))
    (segments / "spans-0000-00000-00000009.parquet").mkdir()
    os.mkfifo(segments / "spans-0000-00000-00000008.parquet")
    (segments / "spans-0000-00000-00000007.parquet").symlink_to("/dev/zero")
    (segments / "spans-0000-00000-00000006.parquet").write_bytes(b"PAR1" + b"x" * 99 + b"PAR1")
    real = segments / "spans-0000-00000-00000000.parquet"
    shutil.copy(real, segments / "it's\n\x1b[31m-x.parquet")
    shutil.copy(real, os.fsencode(segments) + b"/spans\xff.parquet")
    return builder.folder


def test_every_hostile_rank_file_is_a_problem_and_the_rest_is_read(folder):
    ranks, problems = RankFiles(folder).read()
    assert [(info["attempt"], info["rank"]) for info in ranks] == [(0, 0), (0, 1)]
    assert len(problems) == len(HOSTILE_RANKS) + 5
    assert not [text for text in problems if not text.isprintable()]


def test_a_run_with_hostile_files_answers_and_lists_them(folder):
    with open_run(folder) as run:
        assert run.ask("run_summary").to_pylist()[0]["num_spans"] == 10
        aside = [text for text in run.problems if "set aside" in text]
        assert len(aside) == 6
        assert sum("it is not a file" in text for text in aside) == 2
        assert sum("it is a link" in text for text in aside) == 1
        assert sum("its name" in text for text in aside) == 2
        assert all(text.isprintable() for text in run.problems)
    with Indexer(folder) as indexer:
        assert indexer.refresh().new_files == 0


@pytest.mark.parametrize(
    "change",
    [
        {"run": ["x"]},
        {"run": None},
        {"clock": {}},
        {"source": 5},
        {"created_ns": "soon"},
        {"created_ns": float("nan")},
        {"created_ns": 10**400},
        {"guesses": 5},
        {"problems": "abc"},
        {"problems": [1, None]},
        {"events_per_rank": [1]},
        {"versions": [1]},
        {"framework": 3},
    ],
)
def test_a_hostile_run_file_is_one_sentence(tmp_path, change):
    path = RunBuilder(tmp_path / "run").folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match="damaged or not a file of a run") as caught:
        read_run_info(path.parent)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("model", [[1], {"parameters": float("nan")}, {"parameters": 10**400}])
def test_an_odd_model_costs_no_run(tmp_path, model):
    assert read_run_info(RunBuilder(tmp_path / "run", model=model).folder)["run"] == "run"


def test_folders_that_are_files(tmp_path):
    for name in ("segments", "ranks"):
        folder = two_rank_run(tmp_path / name, num_steps=1).folder
        shutil.rmtree(folder / name)
        (folder / name).write_text("x")
        with open_run(folder) as run:
            assert run.ask("slowest_ranks").num_rows == 0


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "loop", "gone/\x1b[2J"])
def test_paths_that_lead_nowhere(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    with pytest.raises(UserError, match="check the path") as caught:
        existing(path)
    assert str(caught.value).isprintable()


def test_no_place_for_an_index_is_one_sentence(tmp_path, monkeypatch):
    folder = two_rank_run(tmp_path / "run", num_steps=1).folder
    (folder / "index").write_text("in the way")
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(UserError, match="set XDG_CACHE_HOME to a folder that can"):
        open_run(folder)


def test_what_a_failed_pass_did_not_take_in_the_next_one_does(tmp_path, monkeypatch):
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    with Indexer(builder.folder) as indexer:
        with monkeypatch.context() as patch:
            patch.setattr(indexer, "_derive", _disk_full)
            with pytest.raises(UserError, match="No space left"):
                indexer.refresh()
        assert indexer.refresh().new_files > 0
    with open_run(builder.folder) as run:
        assert run.ask("run_summary").to_pylist()[0]["num_spans"] == 10


def _disk_full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_run_deleted_while_it_is_open(tmp_path):
    folder = two_rank_run(tmp_path / "run", num_steps=1).folder
    with open_run(folder) as run:
        snapshot = run.snapshot
        shutil.rmtree(folder)
        with pytest.raises(UserError, match="not indexed"):
            run.ask("steps")
        with pytest.raises(UserError, match="does not exist"):
            run.refresh()
        with pytest.raises(UserError, match="No files found"):
            snapshot.execute("FROM rows_of($f)", {"f": [str(folder / "segments/x.parquet")]}, 9.0)


@pytest.mark.parametrize("text", ["SELECT " + "(" * 5000, "SELECT " + "[" * 1001])
def test_deep_sql_is_refused_at_once(tmp_path, text):
    with (
        open_run(two_rank_run(tmp_path / "run", num_steps=1).folder) as run,
        pytest.raises(UserError, match="nested deeper"),
    ):
        run.sql(text)


def test_printable():
    assert printable("a b é 漢") == "a b é 漢"
    assert printable("a\nb\x1b[2J\x9b\u202e\udcff") == r"a\nb\x1b[2J\x9b\u202e\udcff"


def test_rank_files_are_read_again_only_when_they_change(tmp_path, monkeypatch):
    builder = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(dp=4))
    builder.rank_files()
    opened = []
    counted = _counting(rank_files.read_rank_info, opened)
    monkeypatch.setattr(rank_files, "read_rank_info", counted)
    files = RankFiles(builder.folder)
    assert len(files.read()[0]) == 4
    assert len(files.read()[0]) == 4
    assert len(opened) == 4
    path = builder.folder / "ranks" / "0000-00002.json"
    again = json.loads(path.read_text()) | {"host": "moved"}
    path.with_name(".new").write_text(json.dumps(again))
    path.with_name(".new").replace(path)
    assert [info["host"] for info in files.read()[0]] == ["h0", "h0", "moved", "h0"]
    assert len(opened) == 5
    path.unlink()
    assert [info["rank"] for info in files.read()[0]] == [0, 1, 3]
    assert len(opened) == 5


def _counting(original, opened):
    def counted(path):
        opened.append(path)
        return original(path)

    return counted
