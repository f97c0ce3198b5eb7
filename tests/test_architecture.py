"""docs/architecture.md: each numbered list is a trip through files, each step linked to the next.

Two files of neighbouring steps are linked where one imports the other. A step with "over
`WORD`" crosses a border between processes or languages: both files spell the word, in a string or
as a name.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.folders import REPO

PAGE = REPO / "docs/architecture.md"
_ITEM = re.compile(r"^(\d+)\. `([^`]+)`(?:,? over `([^`]+)`)?", re.M)


@dataclass(frozen=True)
class Step:
    """A file of a trip; `over`: the word that it shares with the one above, where given."""

    path: str
    over: str | None = None


def trips(text: str) -> dict[str, list[Step]]:
    """Numbered lists by heading and number; one goes on until a number does not follow."""
    found: dict[str, list[Step]] = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, name = section.split("\n", 1)[0], ""
        for number, path, over in _ITEM.findall(section):
            if number == "1":
                name = heading if heading not in found else f"{heading} ({len(found)})"
                found[name] = []
            assert int(number) == len(found[name]) + 1, f"{name}: {number}. is out of order"
            found[name].append(Step(path, over or None))
    return found


def broken_links(steps: list[Step]) -> list[str]:
    """What is not true of a trip, a sentence each."""
    missing = [f"{step.path} does not exist" for step in steps if not (REPO / step.path).is_file()]
    if missing:
        return missing
    return [
        sentence
        for above, step in pairwise(steps)
        if (sentence := _broken_link(above, step)) is not None
    ]


def _broken_link(above: Step, step: Step) -> str | None:
    if step.over is not None:
        silent = [s.path for s in (above, step) if not spells(REPO / s.path, step.over)]
        return f"{' and '.join(silent)} does not spell {step.over}" if silent else None
    is_linked = step.path in imports_of(above.path) or above.path in imports_of(step.path)
    return None if is_linked else f"neither of {above.path} and {step.path} imports the other"


@cache
def imports_of(path: str) -> frozenset[str]:
    """Files of the repository that a file imports."""
    text = (REPO / path).read_text()
    if path.endswith(".py"):
        return frozenset(_python_imports(ast.parse(text)))
    folder = (REPO / path).parent
    names = re.findall(r"""(?:^import|\bfrom|\bimport\()\s*['"](\.[^'"]+)""", text, re.M)
    return frozenset(_relative((folder / name).resolve()) for name in names)


def _python_imports(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {file for name in node.names for file in _files(name.name)}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {file for name in node.names for file in _files(node.module, name.name)}
    return found


def _files(module: str, name: str | None = None) -> set[str]:
    """The file of a module, or of what it imports under that name; none outside the repository."""
    if name is not None and (submodule := _files(f"{module}.{name}")):
        return submodule
    base = REPO / module.replace(".", "/")
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    if not file.is_file():
        return set()
    if name is None or file.name != "__init__.py":
        return {_relative(file)}
    origins = (
        node.module
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]
    )
    return {origin for found in origins if found for origin in _files(found)} | {_relative(file)}


def _relative(file: Path) -> str:
    return file.relative_to(REPO).as_posix() if file.is_relative_to(REPO) else str(file)


def spells(file: Path, word: str) -> bool:
    """Whether the code of a file has the word; comments and docstrings do not count."""
    text = file.read_text()
    if file.suffix == ".py":
        code = _python_words(ast.parse(text))
    else:
        code = re.sub(r"/\*.*?\*/|^\s*//.*?$|\s//\s.*?$", "", text, flags=re.S | re.M)
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", code) is not None


def _python_words(tree: ast.AST) -> str:
    """Names and strings of a module, one on each line."""
    docstrings = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    words: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in docstrings:
            value = node.value
            words.append(value.decode("latin-1") if isinstance(value, bytes) else str(value))
        elif isinstance(node, ast.Name):
            words.append(node.id)
        elif isinstance(node, ast.Attribute):
            words.append(node.attr)
        elif isinstance(node, ast.alias):
            words.append(node.name)
    return "\n".join(words)


TRIPS = trips(PAGE.read_text())


@pytest.mark.parametrize("trip", TRIPS)
def test_each_step_of_a_trip_leads_to_the_next(trip: str) -> None:
    assert broken_links(TRIPS[trip]) == []


def test_every_item_of_the_page_begins_with_a_file() -> None:
    items = re.findall(r"^\d+\. .*", PAGE.read_text(), re.M)
    assert len(items) == sum(len(steps) for steps in TRIPS.values()) > 0


def test_the_trip_from_a_hook_to_a_pixel_is_there() -> None:
    steps = [step.path.split("/")[0] for step in TRIPS["From a hook to a pixel"]]
    folders = sorted(set(steps), key=steps.index)
    assert folders == ["trace_hooks", "ingest", "app", "assets"]


RECORDER, DRAIN = "trace_hooks/recording/recorder.py", "trace_hooks/recording/drain_thread.py"
ROUTE, LOAD = "app/routes/timeline.py", "assets/timeline/lanes/tile_loader.mjs"


@pytest.mark.parametrize(
    ("steps", "problems"),
    [
        ([Step(RECORDER), Step(DRAIN)], []),
        ([Step(DRAIN), Step(RECORDER)], []),
        ([Step("app/nowhere.py"), Step(DRAIN)], ["app/nowhere.py does not exist"]),
        (
            [Step(RECORDER), Step(ROUTE)],
            [f"neither of {RECORDER} and {ROUTE} imports the other"],
        ),
        ([Step(ROUTE), Step(LOAD)], [f"neither of {ROUTE} and {LOAD} imports the other"]),
        ([Step(ROUTE), Step(LOAD, "timeline")], []),
        ([Step(ROUTE), Step(LOAD, "lanes")], [f"{LOAD} does not spell lanes"]),
        ([Step(ROUTE), Step(LOAD, "Dat")], [f"{ROUTE} and {LOAD} does not spell Dat"]),
    ],
)
def test_a_broken_link_is_found(steps: list[Step], problems: list[str]) -> None:
    assert broken_links(steps) == problems


def test_a_word_in_a_comment_or_docstring_is_not_code(tmp_path: Path) -> None:
    python, script = tmp_path / "a.py", tmp_path / "a.mjs"
    python.write_text('"""about lanes"""\n\nX = "/api/spans"  # lanes\n')
    script.write_text("/** lanes */\n// lanes\nconst x = 'http://a/spans'; // lanes\n")
    for file in (python, script):
        assert spells(file, "spans")
        assert not spells(file, "lanes")
