"""Runs that older versions recorded and imported open as they did, and links to them hold.

older_runs/ has a recorded run of schema 1.0 and one of 1.1 (two ranks, three steps; each was
written by the version of then) and an import of torch.profiler's file by the last version of 1.2
before the readers moved.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from app.cli import main
from app.view_state import View, explain, parse_url
from app.views.run.about_run import about_run
from ingest.index.snapshots import current_snapshot
from ingest.query.saved_queries import saved_queries
from ingest.run import open_run
from ingest.summary import info
from sample_traces.jobs.record import RECORDED
from tests.stuck_runs import stuck_run
from trace_hooks.schema import TABLES

OLDER = Path(__file__).parent / "older_runs"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Copies: opening one writes its index."""
    for folder in OLDER.iterdir():
        shutil.copytree(folder, tmp_path / "runs" / folder.name)
    for folder in RECORDED.iterdir():
        if folder.is_dir():
            ignored = shutil.ignore_patterns("index")
            shutil.copytree(folder, tmp_path / "runs" / folder.name, ignore=ignored)
    return tmp_path / "runs"


@pytest.mark.parametrize("name", ["schema_1_0", "schema_1_1"])
def test_a_run_of_an_older_schema_opens(runs: Path, name: str) -> None:
    with open_run(runs / name) as run:
        assert run.problems == []
        assert [row["step"] for row in run.ask("steps").to_pylist()] == [0, 1, 2]
        assert str(run.layout()) == "dp 2"
        assert run.sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 12}]
        assert run.sql("SELECT count(*) AS n FROM collectives").to_pylist() == [{"n": 6}]
        assert info(run)["layout_from"] == "job"


def test_looks_of_a_schema_without_their_newer_columns_are_read(tmp_path: Path) -> None:
    run = stuck_run(tmp_path / "run")
    for name in ("looks", "entered", "log_lines"):
        optional = [column.name for column in TABLES[name].columns if column.nullable]
        for path in (run.folder / "segments").glob(f"{name}-*.parquet"):
            pq.write_table(pq.read_table(path).drop_columns(optional), path)
    with open_run(run.folder) as opened:
        looks = opened.ask("rank_looks").to_pylist()
        assert [row["rank"] for row in looks] == [0, 1, 2, 3]
        assert {row["source"] for row in looks} <= {None, "watchdog"}
        assert opened.ask("entered_collectives").num_rows
        assert opened.sql("SELECT count(source) AS n FROM entered").to_pylist() == [{"n": 0}]


def test_an_imported_run_opens(runs: Path) -> None:
    with open_run(runs / "imported") as run:
        assert run.problems == []
        summary, about = info(run), about_run(run)
        assert run.sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 10}]
    assert (summary["format"], summary["num_ranks"]) == ("kineto", 1)
    assert (about.source, about.is_import) == ("torch.profiler (Kineto)", True)
    assert about.files == ("rank-1.json (2458 bytes, blake2b 3d212b4cb12befce)",)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["healthy", "slow_rank", "imported", "schema_1_0", "schema_1_1"])
def test_every_saved_query_that_needs_nothing_is_answered(runs: Path, name: str) -> None:
    with open_run(runs / name) as run:
        for query in saved_queries().values():
            if not any(parameter.required for parameter in query.parameters):
                run.ask(query.name)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (
            "/run/slow_rank/timeline?ranks=0-3,5&steps=8..9",
            View(run="slow_rank", page="timeline", ranks=(0, 1, 2, 3, 5), steps=(8, 9)),
        ),
        (
            "/run/healthy/ranks?metric=compute_ms&ranks=5",
            View(run="healthy", page="ranks", metric="compute_ms", ranks=(5,)),
        ),
        (
            "/run/schema_1_0/timeline?ranks=1&steps=2..2",
            View(run="schema_1_0", page="timeline", ranks=(1,), steps=(2, 2)),
        ),
        ("/run/imported/overview?ranks=1", View(run="imported", ranks=(1,))),
    ],
)
def test_links_lead_where_they_did(runs: Path, link: str, expected: View) -> None:
    path, _, search = link.partition("?")
    view, problems = parse_url(path, search)
    assert (view, problems) == (expected, [])
    with open_run(runs / str(view.run)) as run:
        assert explain(view, run) == []


def test_an_index_is_kept_as_long_as_its_tables_are_the_same(runs: Path) -> None:
    folder = runs / "healthy"
    assert main(["index", str(folder)]) == 0
    published = current_snapshot(folder / "index")
    with open_run(folder):
        assert current_snapshot(folder / "index") == published
