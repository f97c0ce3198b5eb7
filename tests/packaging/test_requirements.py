"""requirements.txt: exact, hashed, from constraints.txt; the bill of materials made of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.packaging.lent import _needs
from tests.packaging.requirements import OURS, REPO, direct

FILE = REPO / "requirements.txt"
HASH = re.compile(r"sha256:[0-9a-f]{64}")
PLATFORMS = [
    (python, machine) for python in ("3.11", "3.12", "3.13") for machine in ("x86_64", "aarch64")
]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(path: Path) -> dict[str, str]:
    """Version by name of the lines NAME==VERSION."""
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", path.read_text("utf-8"), re.M)
    return {plain(name): version for name, version in found}


def entries(path: Path = FILE) -> dict[str, list[str]]:
    """Hashes by NAME==VERSION."""
    text = path.read_text("utf-8").replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and line[0] != "#"]
    assert all(word.startswith("--hash=") for _, *words in lines for word in words)
    return {name: [word.removeprefix("--hash=") for word in words] for name, *words in lines}


def closure() -> set[str]:
    """All that the two wheels need, as this environment has it."""
    waiting, seen = [Requirement(text) for text in direct()], set()
    while waiting:
        needed = waiting.pop()
        key = plain(needed.name), frozenset(needed.extras)
        if key not in seen:
            seen.add(key)
            waiting += _needs(distribution(needed.name), key[1])
    return {name for name, _ in seen}


def test_it_agrees_with_the_constraints() -> None:
    constraints = pinned(REPO / "constraints.txt")
    ours = pinned(FILE)
    assert ours == {name: constraints.get(name) for name in ours}
    assert not {"torch", "triton", *OURS} & ours.keys()
    assert not [name for name in ours if name.startswith(("nvidia", "cuda"))]


def test_it_has_all_that_the_wheels_need_and_nothing_else() -> None:
    assert pinned(FILE).keys() == closure()


def test_every_line_has_hashes_and_names_no_registry() -> None:
    listed = entries()
    assert len(listed) == len(pinned(FILE)) > 30
    for name, hashes in listed.items():
        assert hashes, name
        assert all(HASH.fullmatch(one) for one in hashes), name
        assert len(set(hashes)) == len(hashes)
    assert "//" not in FILE.read_text("utf-8")


@pytest.fixture(scope="module")
def _registry(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("registry")
    version = pinned(FILE)["zipp"]
    done = pip("download", "--no-deps", "--dest", str(folder), f"zipp=={version}")
    if done.returncode:
        pytest.skip("no package registry can be reached from here")


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def make(*arguments: str) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", f"PYTHON={sys.executable}", *arguments],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.registry
@pytest.mark.usefixtures("_registry")
@pytest.mark.parametrize(("python", "machine"), PLATFORMS)
def test_pip_finds_all_of_it_with_these_hashes(python: str, machine: str, tmp_path: Path) -> None:
    tags = [f"--platform={tag}_{machine}" for tag in ("manylinux_2_28", "manylinux2014")]
    done = pip(
        "install",
        "--dry-run",
        "--require-hashes",
        "--no-deps",
        "--only-binary=:all:",
        f"--target={tmp_path}",
        f"--python-version={python}",
        *tags,
        "-r",
        str(FILE),
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.registry
@pytest.mark.usefixtures("_registry")
def test_make_requirements_writes_what_is_here(tmp_path: Path) -> None:
    made = tmp_path / "made.txt"
    make("requirements", f"VENV={tmp_path / 'venv'}", f"REQUIREMENTS={made}")
    assert entries(made).keys() == entries().keys()
    for name, hashes in entries().items():  # files may have come since
        assert set(hashes) <= set(entries(made)[name]), name


@pytest.mark.registry
@pytest.mark.usefixtures("_registry")
def test_the_bill_of_materials_names_every_part_with_version_and_hash(tmp_path: Path) -> None:
    make("sbom", f"VENV={tmp_path / 'venv'}", f"DIST={tmp_path}")
    content = json.loads((tmp_path / "rankscope.cdx.json").read_text("utf-8"))
    assert (content["bomFormat"], content["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "rankscope",
    )
    versions = {plain(one["name"]): one["version"] for one in content["components"]}
    assert versions.items() >= pinned(FILE).items()
    assert set(OURS) == versions.keys() - pinned(FILE).keys()
    for one in content["components"]:
        hashes = [h for place in one["externalReferences"] for h in place.get("hashes", [])]
        assert hashes, one["name"]
        assert all(h["alg"] == "SHA-256" and len(h["content"]) == 64 for h in hashes)
