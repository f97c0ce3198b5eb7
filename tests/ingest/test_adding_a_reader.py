"""docs/adding-a-reader.md holds: its module and one line are a reader."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import ingest.readers
from ingest.imports.importer import HERE_VARIABLE
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
    (code,) = [block for block in blocks if f'NAME = "{NAME}"' in block]
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
    assert (summary["format"], summary["num_ranks"], summary["num_spans"]) == (NAME, 2, 3)
