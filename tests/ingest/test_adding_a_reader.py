"""docs/adding-a-reader.md holds: its module and one line are a reader, its .sql file a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

import ingest.readers
from app.analysis.imports import import_paths
from app.views.run.about_run import about_run
from ingest.imports.worker_command import HERE_VARIABLE
from ingest.limits import Limits
from ingest.query.saved_queries import parse_saved_query
from ingest.run import open_run
from ingest.summary import info
from tests.guide_examples import added_module, example
from tests.reader_results import Imported
from tests.runs_builder import two_rank_run

GUIDE = "adding-a-reader.md"
NAME = "my_format"


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The guide's module, and its name in FORMATS."""
    monkeypatch.setattr(ingest.readers, "FORMATS", (*ingest.readers.FORMATS, NAME))
    monkeypatch.setattr("ingest.summary.FORMATS", ingest.readers.FORMATS)
    monkeypatch.setenv(HERE_VARIABLE, "1")
    code = example(GUIDE, f'FORMAT = Format("{NAME}"')
    with added_module(ingest.readers, NAME, code, tmp_path / "readers"):
        yield


@pytest.mark.usefixtures("added")
def test_the_reader_of_the_page_is_one_module_and_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.mine"
    path.write_text("MYTRACE1\n0 3 10 5 a <b>\n1 3 12 5 c\nwhat?\n1 4 20 1 c\n-1 4 20 1 c\n")
    imported = Imported(path, into=tmp_path / "runs")
    assert sorted(imported.rows("spans", "rank", "step", "ts_ns", "dur_ns", "name")) == [
        (0, 3, 10_000, 5_000, "a <b>"),
        (1, 3, 12_000, 5_000, "c"),
        (1, 4, 20_000, 1_000, "c"),
    ]
    assert imported.problems == [f"{path}: line {n} is damaged, left out" for n in (4, 6)]
    with open_run(imported.folder) as run:
        summary = info(run)
        assert about_run(run).source == "My format"
    assert (summary["format"], summary["num_ranks"], summary["num_spans"]) == (NAME, 2, 3)


@pytest.mark.usefixtures("added")
def test_too_many_spans_are_a_problem_that_names_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Limits(max_rows=1)
    monkeypatch.setattr("ingest.readers.tables.span_list.limits", lambda: few)
    whole, long = tmp_path / "whole.mine", tmp_path / "long.mine"
    whole.write_text("MYTRACE1\n0 3 10 5 a\n")
    long.write_text("MYTRACE1\n1 3 10 5 a\n1 3 20 5 b\n")
    (problem,) = Imported(whole, long, into=tmp_path / "runs").problems
    assert "has more spans than RANKSCOPE_MAX_ROWS=1" in problem


@pytest.mark.usefixtures("added")
def test_the_facts_of_the_page_s_format_are_heeded(tmp_path: Path) -> None:
    path = tmp_path / "x.mine"
    path.write_text("MYTRACE1\n0 3 10 5 a\n1 3 12 5 c\n")
    with open_run(import_paths([path], tmp_path / "runs")) as run:
        (problem,) = run.problems  # its clocks are compared: nothing connects them
    assert "the clocks of ranks 0, 1 could not be compared" in problem


def test_no_reader_imports_another_one() -> None:
    graph = grimp.build_graph("ingest")
    package = "ingest.readers"
    modules = {
        name: {f"{package}.{name}", *graph.find_descendants(f"{package}.{name}")}
        for name in ingest.readers.FORMATS
    }
    readers = set().union(*modules.values())
    for own in modules.values():
        imported = set().union(*map(graph.find_modules_directly_imported_by, own))
        assert imported & readers <= own


def test_the_saved_query_of_the_page_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = parse_saved_query("longest_spans", example(GUIDE, "-- Longest span", "sql"))
    monkeypatch.setattr("ingest.run.saved_query", lambda _name: longest)
    with open_run(two_rank_run(tmp_path / "run").folder) as run:
        answer = run.ask("longest_spans", step=1)
    assert answer.to_pylist() == [{"rank": rank, "longest_ns": 40_000} for rank in range(2)]
