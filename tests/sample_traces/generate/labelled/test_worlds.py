"""Nothing that diagnoses knows the worlds that it is measured in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.folders import REPO

WORLDS = "sample_traces.generate.labelled.worlds"


@pytest.mark.parametrize("package", ["diagnosis", "ingest", "app", "trace_hooks"])
def test_no_module_of_the_product_imports_the_worlds(package: str) -> None:
    files = sorted((REPO / package).rglob("*.py"))
    assert len(files) > 10
    assert not [f"{file.relative_to(REPO)}" for file in files if any(labelled_imports(file))]


def labelled_imports(file: Path) -> Iterator[str]:
    """Imports of the module of worlds, or of what draws jobs from it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in names if name.startswith(WORLDS.rpartition(".")[0]))


def test_the_search_sees_each_form_of_an_import(tmp_path: Path) -> None:
    for text in (
        f"import {WORLDS}",
        f"from {WORLDS} import PHASE_LOG",
        "from sample_traces.generate.labelled import worlds",
        "def later():\n    from sample_traces.generate.labelled.drawn_log import draw_log",
    ):
        file = tmp_path / "module.py"
        file.write_text(text)
        assert list(labelled_imports(file)), text
