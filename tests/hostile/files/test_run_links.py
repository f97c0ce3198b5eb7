"""Links below a run folder: nothing that lies outside is read, written or deleted through them."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from app.runs.hub import Hub
from ingest.errors import UserError
from ingest.exports.tables import table_batches
from ingest.exports.window import Window
from ingest.index.indexer import Indexer
from ingest.index.retention import content_files
from ingest.index.snapshots import DATABASE, index_folder
from ingest.run import Run, RunStore, open_run
from ingest.run_folder.run_files import is_run_folder
from tests.runs_builder import RunBuilder

SECRET_STEP = 77


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run_with(folder: Path, step: int) -> Path:
    """A run of one rank with this step, indexed."""
    run = RunBuilder(folder, world_size=1)
    run.rank_files()
    run.step(0, step, 100, 200)
    run.publish()
    with open_run(folder):
        pass
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A run of somebody else."""
    return run_with(tmp_path / "elsewhere" / "secret", SECRET_STEP)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A run, indexed, in a folder of runs."""
    return run_with(tmp_path / "runs" / "mine", 1)


def steps(folder: Path) -> list[int]:
    """What a page or a verb sees of it."""
    with open_run(folder) as run:
        return [row["step"] for row in run.ask("steps").to_pylist()]


def linked(path: Path, to: Path) -> None:
    """Put a link in the place of a file or folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(to)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", ["segments", "compacted", "ranks"])
def test_a_folder_that_is_a_link_keeps_the_run_from_being_read(
    name: str, mine: Path, secret: Path
) -> None:
    (secret / "compacted").mkdir(exist_ok=True)
    for path in (secret / "segments").iterdir():
        shutil.copy(path, secret / "compacted")
    before = contents(secret)
    linked(mine / name, secret / name)
    for look in (steps, lambda folder: Run(folder).ask("steps"), Indexer, content_or_refusal):
        with pytest.raises(UserError, match=f"{name} is a link, and links below a run folder"):
            look(mine)
    assert contents(secret) == before  # nothing was merged, tidied or indexed there


def content_or_refusal(folder: Path) -> None:
    assert content_files(folder) == []
    Indexer(folder)


def test_a_server_reports_the_link_and_shows_nothing_of_it(mine: Path, secret: Path) -> None:
    linked(mine / "compacted", secret / "segments")
    hub = Hub(mine.parent)
    try:
        with pytest.raises(UserError, match="compacted is a link"):
            hub.run("mine").ask("steps")
    finally:
        hub.close()


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", ["segments", "compacted"])
def test_a_file_that_is_a_link_is_set_aside(
    name: str, again: bool, mine: Path, secret: Path
) -> None:
    """`again`: the index is rebuilt, as for a run that has just come."""
    (mine / name).mkdir(exist_ok=True)
    of_secret = next((secret / "segments").glob("steps-*.parquet"))
    (mine / name / "steps-0000-00000-000099.parquet").symlink_to(of_secret)
    if again:
        shutil.rmtree(mine / "index")
    assert steps(mine) == [1]
    with open_run(mine) as run:
        assert any("is a link" in problem for problem in run.problems), run.problems


def test_a_file_that_a_link_has_replaced_is_not_read(mine: Path, secret: Path) -> None:
    """The index knows it from before."""
    (own,) = (mine / "segments").glob("steps-*.parquet")
    of_secret = next((secret / "segments").glob("steps-*.parquet"))
    with open_run(mine) as run:
        linked(own, of_secret)
        assert [row["step"] for row in run.ask("steps").to_pylist()] == [1]  # of the index
        with pytest.raises(UserError, match="it is a link"):
            list(table_batches(run, "steps", Window()))


def test_files_of_ranks_and_layouts_that_are_links_are_reported(mine: Path, secret: Path) -> None:
    (rank,) = (mine / "ranks").iterdir()
    linked(rank, next((secret / "ranks").iterdir()))
    (secret / "layout.json").write_text("{}")
    linked(mine / "layout.json", secret / "layout.json")
    with open_run(mine) as run:
        assert run.ranks == []
        problems = " ".join(run.problems)
    assert f"{rank.name} cannot be read: it is a link" in problems
    assert "layout.json cannot be read: it is a link" in problems


def test_a_run_file_that_is_a_link_makes_no_run(mine: Path, secret: Path) -> None:
    linked(mine / "run.json", secret / "run.json")
    assert not is_run_folder(mine)
    assert RunStore(mine.parent).folders() == []
    with pytest.raises(UserError, match=r"run\.json cannot be read: it is a link"):
        Run(mine)


def index_itself(index: Path, other: Path) -> None:
    linked(index, other)


def its_database(index: Path, other: Path) -> None:
    linked(index / DATABASE, other / DATABASE)


def its_snapshots(index: Path, other: Path) -> None:
    for path in index.glob("snapshot-*.duckdb"):
        linked(path, next(other.glob("snapshot-*.duckdb")))


def its_lock(index: Path, other: Path) -> None:
    linked(index / "lock", other / "new")


def its_empty_files(index: Path, other: Path) -> None:
    (index / "empty").mkdir(exist_ok=True)
    linked(index / "empty" / "steps.parquet", next((other.parent / "segments").glob("steps-*")))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "part", [index_itself, its_database, its_snapshots, its_lock, its_empty_files]
)
def test_an_index_with_links_is_rebuilt_elsewhere(
    part: Callable[[Path, Path], None], mine: Path, secret: Path, tmp_path: Path
) -> None:
    before = contents(secret)
    part(mine / "index", secret / "index")
    assert index_folder(mine).is_relative_to(tmp_path / "cache")
    assert steps(mine) == [1]
    assert contents(secret) == before


def test_an_index_that_names_files_elsewhere_leads_nowhere(mine: Path, secret: Path) -> None:
    """An index that came with the run."""
    other = next((secret / "segments").glob("steps-*.parquet"))
    path = f"segments/../../../elsewhere/secret/segments/{other.name}"
    with duckdb.connect(str(mine / "index" / DATABASE)) as connection:
        connection.execute("UPDATE files SET path = ? WHERE table_name = 'steps'", [path])
        connection.execute("INSERT INTO retired VALUES (?, 0)", [path])
        connection.execute("UPDATE generation SET number = number + 1")
    (mine / "ranks").touch()
    with Indexer(mine) as indexer:
        indexer.refresh()
    assert other.exists()
    with Run(mine) as run:
        found = [rows["step"].to_pylist() for rows in table_batches(run, "steps", Window())]
    assert found == [[1]]


def test_a_run_folder_that_is_a_link_is_read(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(mine)
    assert steps(tmp_path / "link") == [1]


@pytest.mark.parametrize("damage", ["pipe", "link"])
def test_a_pipe_or_link_in_the_place_of_a_file_is_not_opened(
    mine: Path, secret: Path, damage: str
) -> None:
    with Run(mine) as run:
        (path,) = (mine / "segments").glob("steps-*")
        path.unlink()
        if damage == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(next((secret / "segments").glob("steps-*")))
        for ask in (
            lambda: run.execute("SELECT count(*) FROM steps", {}),
            lambda: list(table_batches(run, "steps", Window())),
        ):
            with pytest.raises(UserError, match=r"cannot be read: it is (not a file|a link)"):
                ask()


def test_a_pipe_in_the_place_of_the_notes_of_a_quarantine_stops_no_pass(mine: Path) -> None:
    (mine / "quarantine").mkdir()
    os.mkfifo(mine / "quarantine" / "sentences.json")
    with Indexer(mine) as indexer:
        indexer.refresh()
        assert indexer.database.connection.execute("SELECT * FROM problems").fetchall() == []


def test_folders_without_end_in_an_index_make_it_another_elsewhere(
    mine: Path, tmp_path: Path
) -> None:
    deep = mine / "index"
    for _ in range(700):
        deep /= "a"
        deep.mkdir()
    assert index_folder(mine).is_relative_to(tmp_path / "cache")


def test_a_folder_that_comes_and_goes_in_an_index_is_no_link(mine: Path) -> None:
    """DuckDB has one there while it needs the disk."""
    ends = threading.Event()

    def come_and_go() -> None:
        folder = mine / "index" / "index.duckdb.tmp"
        while not ends.is_set():
            folder.mkdir()
            folder.rmdir()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        assert {index_folder(mine) for _ in range(5_000)} == {mine / "index"}
    finally:
        ends.set()
        thread.join()
