"""ES modules of assets/ as one classic script, for a file that can load nothing.

Each module becomes a function scope; imports become constants from the modules before it. Only the
forms of import and export that assets/ uses are known; any other raises ValueError.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

_IMPORT = re.compile(
    r"^import\s+(?:\{(?P<names>[^}]*)\}|\*\s+as\s+(?P<all>\w+))\s+from\s+'(?P<path>\.[^']+)';[^\n]*$",
    re.MULTILINE,
)
_EXPORTED = re.compile(
    r"^export\s+(?P<kept>(?:async\s+)?(?:function\*?|class|const|let)\s+(?P<name>\w+))",
    re.MULTILINE,
)
_EXPORT_LIST = re.compile(r"^export\s+\{(?P<names>[^}]*)\};[^\n]*$", re.MULTILINE)
_LEFT = re.compile(r"^\s*(?:import|export)\b|\bimport\s*\.\s*meta|^[^/*\n]*\bawait import\(", re.M)

Read = Callable[[str], str]


def bundle(entry: str, read: Read) -> str:
    """Script that runs the module at path `entry`; `read` gives the text of a path."""
    order = modules(entry, read)
    numbers = {path: number for number, path in enumerate(order)}
    parts = [_wrapped(path, read(path), numbers) for path in order]
    script = "\n".join(["(() => {\n'use strict';\nconst $modules = [];", *parts, "})();\n"])
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def modules(entry: str, read: Read) -> list[str]:
    """Paths of a module and of all it imports at once, each after those that it needs."""
    order: list[str] = []
    _visit(entry, read, order, ())
    return order


def from_folder(folder: Path) -> Read:
    """Reader of the files below a folder."""
    return lambda path: (folder / path).read_text(encoding="utf-8")


def _visit(path: str, read: Read, order: list[str], above: tuple[str, ...]) -> None:
    if path in order:
        return
    if path in above:
        raise ValueError(f"modules import each other in a ring: {' -> '.join([*above, path])}")
    for found in _IMPORT.finditer(read(path)):
        _visit(_target(path, found["path"]), read, order, (*above, path))
    order.append(path)


def _target(path: str, relative: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), relative))


def _names(text: str) -> list[tuple[str, str]]:
    """Pairs (name outside, name inside) of `a, b as c` in an import."""
    pairs = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        outside, _, inside = part.partition(" as ")
        pairs.append((outside.strip(), inside.strip() or outside.strip()))
    return pairs


def _wrapped(path: str, text: str, numbers: dict[str, int]) -> str:
    def imported(found: re.Match[str]) -> str:
        number = numbers[_target(path, found["path"])]
        if found["all"]:
            return f"const {found['all']} = $modules[{number}];"
        names = ", ".join(
            outside if outside == inside else f"{outside}: {inside}"
            for outside, inside in _names(found["names"])
        )
        return f"const {{ {names} }} = $modules[{number}];"

    exports = [(found["name"], found["name"]) for found in _EXPORTED.finditer(text)]
    for found in _EXPORT_LIST.finditer(text):
        exports += [(outside, inside) for inside, outside in _names(found["names"])]
    text = _IMPORT.sub(imported, text)
    text = _EXPORT_LIST.sub("", _EXPORTED.sub(lambda found: found["kept"], text))
    left = _LEFT.search(text)
    if left is not None:
        line = text[left.start() :].lstrip().splitlines()[0]
        raise ValueError(f"{path}: cannot be put into one script: {line[:80]}")
    given = ", ".join(f"get {outside}() {{ return {inside}; }}" for outside, inside in exports)
    # getters: what is assigned later is seen, as with modules
    return f"$modules[{numbers[path]}] = (() => {{ // {path}\n{text}\nreturn {{ {given} }};\n}})();"
