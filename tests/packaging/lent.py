"""Distributions lent to another environment, as links: pip would take a minute to copy them."""

from __future__ import annotations

from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement


def lend_what_is_needed(site: Path) -> None:
    """Link what the distributions in `site` need, and what that needs, from this environment.

    `site`: the site-packages of the other one. AssertionError for a version out of range.
    """
    installed = list(distributions(path=[str(site)]))
    there = {_plain(one.name) for one in installed}
    waiting = [need for one in installed for need in _needs(one, frozenset())]
    seen = set()
    while waiting:
        needed = waiting.pop()
        found = distribution(needed.name)
        assert needed.specifier.contains(found.version), f"{needed}, here is {found.version}"
        if _plain(found.name) not in there:
            there.add(_plain(found.name))
            _link(found, site)
        if (found.name, *needed.extras) not in seen:
            seen.add((found.name, *needed.extras))
            waiting += _needs(found, frozenset(needed.extras))


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _needs(one: Distribution, extras: frozenset[str]) -> list[Requirement]:
    needs = [Requirement(text) for text in one.requires or []]
    return [
        need
        for need in needs
        if need.marker is None
        or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def _link(installed: Distribution, site: Path) -> None:
    """What lies in site-packages: commands and headers stay where they are."""
    for top in {Path(file).parts[0] for file in installed.files or []} - {"..", "__pycache__"}:
        (site / top).symlink_to(Path(str(installed.locate_file(top))))
