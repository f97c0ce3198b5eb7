"""Lines of requirements files: what the two wheels need, and the wheels themselves with hashes.

`make requirements` and `make sbom` run it, with any Python that has no package installed.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
HEADER = """\
# Exact versions of what the server needs, with hashes of every file of that version: for CPython
# 3.11 to 3.13 on Linux, x86-64 and aarch64. Made from constraints.txt by `make requirements`;
# SECURITY.md says how to install with it.
"""
OURS = ("rankscope-hooks", "rankscope")


def direct() -> list[str]:
    """What both wheels need themselves, apart from each other."""
    found = []
    for folder in (REPO, REPO / "trace_hooks"):
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        found += [need for need in project["dependencies"] if not need.startswith(OURS)]
    return found


def of_wheels(folder: Path) -> list[str]:
    """NAME==VERSION --hash=... of our wheels in a folder."""
    found = []
    for path in sorted(folder.glob("rankscope*.whl")):
        name, version, *_ = path.name.split("-")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        found.append(f"{name.replace('_', '-')}=={version} --hash=sha256:{digest}")
    return found


def main() -> None:
    """Print lines: `header`, `direct`, or `wheels FOLDER`."""
    what, *rest = sys.argv[1:]
    if what == "header":
        print(HEADER, end="")
    else:
        print("\n".join(direct() if what == "direct" else of_wheels(Path(rest[0]))))


if __name__ == "__main__":
    main()
