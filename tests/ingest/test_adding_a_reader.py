"""docs/adding-a-reader.md holds: its module and one line are a reader, and nothing else is."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

import ingest.readers
from app.analysis.imports import import_paths
from app.views.run.about_run import about_run
from ingest.imports.worker_command import HERE_VARIABLE
from ingest.run import open_run
from ingest.summary import info
from tests.folders import REPO
from tests.reader_results import Imported

PAGE = REPO / "docs" / "adding-a-reader.md"
NAME = "my_format"


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's module, and its name in FORMATS."""
    blocks = re.findall(r"^ *```python\n(.*?)^ *```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (code,) = [block for block in blocks if f'FORMAT = Format("{NAME}"' in block]
    (tmp_path / "readers").mkdir()
    (tmp_path / "readers" / f"{NAME}.py").write_text(textwrap.dedent(code))
    folders = [*ingest.readers.__path__, str(tmp_path / "readers")]
    monkeypatch.setattr(ingest.readers, "__path__", folders)
    monkeypatch.setattr(ingest.readers, "FORMATS", (*ingest.readers.FORMATS, NAME))
    monkeypatch.setattr("ingest.summary.FORMATS", ingest.readers.FORMATS)
    monkeypatch.setenv(HERE_VARIABLE, "1")
    yield
    sys.modules.pop(f"ingest.readers.{NAME}", None)


@pytest.mark.usefixtures("added")
def test_the_reader_of_the_page_is_one_module_and_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.mine"
    path.write_text("MYTRACE1\n0 3 10 5 a <b>\n1 3 12 5 c\nwhat?\n1 4 20 1 c\n")
    imported = Imported(path, into=tmp_path / "runs")
    assert sorted(imported.rows("spans", "rank", "step", "ts_ns", "dur_ns", "name")) == [
        (0, 3, 10_000, 5_000, "a <b>"),
        (1, 3, 12_000, 5_000, "c"),
        (1, 4, 20_000, 1_000, "c"),
    ]
    assert imported.problems == [f"{path}: line 4 has no five fields, left out"]
    with open_run(imported.folder) as run:
        summary = info(run)
        assert about_run(run).source == "My format"
    assert (summary["format"], summary["num_ranks"], summary["num_spans"]) == (NAME, 2, 3)


@pytest.mark.usefixtures("added")
def test_the_facts_of_the_page_s_format_are_heeded(tmp_path: Path) -> None:
    path = tmp_path / "x.mine"
    path.write_text("MYTRACE1\n0 3 10 5 a\n1 3 12 5 c\n")
    with open_run(import_paths([path], tmp_path / "runs")) as run:
        (problem,) = run.problems  # its clocks are compared: nothing connects them
    assert "the clocks of ranks 0, 1 are not aligned" in problem


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
