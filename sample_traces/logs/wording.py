"""Exceptions in the words of other people's code: the `raise` statements of installed packages.

Whoever wrote the detector's patterns has not seen them all, so that a generator built on them tests
more than those patterns. Without torch the standard library serves.
"""

from __future__ import annotations

import ast
import importlib.util
import random
import re
from functools import cache
from pathlib import Path

_FOLDERS = {"torch": ("nn", "optim", "utils/data", "fx"), "json": ("",), "email": ("",)}
_KINDS = ("ValueError", "RuntimeError", "TypeError", "KeyError", "AssertionError", "IndexError")
_MOST_FILES = 120


@cache
def _raised() -> tuple[tuple[str, str], ...]:
    """Type and text of exceptions raised with a plain text, sorted."""
    found: set[tuple[str, str]] = set()
    for package, folders in _FOLDERS.items():
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            continue
        root = Path(next(iter(spec.submodule_search_locations)))
        for folder in folders:
            for path in sorted((root / folder).rglob("*.py"))[:_MOST_FILES]:
                found.update(_raised_in(path))
    return tuple(sorted(found))


def _raised_in(path: Path) -> set[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_text())
    except (OSError, SyntaxError, UnicodeDecodeError):
        return set()
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
            continue
        name = getattr(node.exc.func, "id", "")
        text = _text_of(node.exc.args[0]) if node.exc.args else ""
        if name in _KINDS and 20 < len(text) < 160 and "\n" not in text:
            found.add((name, text))
    return found


def _text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [_text_of(part) if isinstance(part, ast.Constant) else "7" for part in node.values]
        return "".join(parts)
    return ""


def exception(rng: random.Random) -> str:
    """An exception as the last line of a traceback shows it."""
    known = _raised()
    if not known:
        return "ValueError: the shapes of the two inputs do not fit"
    kind, text = rng.choice(known)
    if re.search(r"distributed|process group|backend|cuda|memory", text, re.IGNORECASE):
        return exception(rng)
    return f"{kind}: {text}"
