"""The examples of docs/adding-a-*.md: their code, and modules made of it."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


def example(guide: str, holding: str, language: str = "python") -> str:
    """The one block of code of a guide that holds a text."""
    text = (DOCS / guide).read_text(encoding="utf-8")
    blocks = re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    (code,) = [block for block in blocks if holding in block]
    return textwrap.dedent(code)


def added_line(guide: str, holding: str) -> str:
    """The one line that a guide adds to a registry, without its sign and its comma."""
    (line,) = example(guide, holding, "diff").splitlines()
    return line.removeprefix("+").strip().removesuffix(",")


def added_entry(guide: str, name: str) -> Any:
    """What a guide adds to a registry under a name."""
    line = added_line(guide, f'"{name}": ')
    return ast.literal_eval(f"{{{line}}}")[name]


@contextmanager
def added_module(package: ModuleType, name: str, code: str, folder: Path) -> Iterator[None]:
    """`package.name` can be imported, from `code`, as long as the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package, "__path__", [*package.__path__, str(folder)])
        try:
            yield
        finally:
            sys.modules.pop(f"{package.__name__}.{name}", None)
            vars(package).pop(name, None)
