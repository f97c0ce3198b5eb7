"""The imports of assets/: views share only what lies in lib/, and never import each other."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from pathlib import Path

ASSETS = Path(__file__).parents[2] / "assets"
ENTRIES = {"main.mjs", "offline.mjs"}
"""Where views are put together: the page and the file that opens without a server."""
_IMPORT = re.compile(r"^\}?[^'\n]*\bfrom '(\.[^']+)';", re.MULTILINE)


def _imports() -> dict[str, list[str]]:
    """Paths below assets/ that each module imports."""
    modules = {
        path.relative_to(ASSETS).as_posix(): path.read_text() for path in ASSETS.rglob("*.mjs")
    }
    return {
        path: [
            posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            for target in _IMPORT.findall(text)
        ]
        for path, text in modules.items()
    }


def test_a_view_imports_its_own_folder_and_lib() -> None:
    imports = _imports()
    assert sum(map(len, imports.values())) > len(imports)
    outside = {
        (path, target)
        for path, targets in imports.items()
        if path not in ENTRIES
        for target in targets
        if target.split("/")[0] not in {"lib", path.split("/")[0]}
    }
    assert not outside


def test_imported_modules_exist() -> None:
    imports = _imports()
    missing = {target for targets in imports.values() for target in targets} - set(imports)
    assert not missing


def test_a_folder_has_at_most_fifteen_modules() -> None:
    sizes = Counter(posixpath.dirname(path) for path in _imports())
    assert {folder: count for folder, count in sizes.items() if count > 15} == {}
