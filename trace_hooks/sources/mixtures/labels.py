"""What the sources of a mixture are called: by the job, else by where their files are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

UNNAMED = "source"

LONGEST_BYTES = 27
"""Of a name in a worker's record, which has 32; a number may follow."""

_ENDING = re.compile(
    r"(\.(tar|tgz|gz|zst|zstd|bz2|xz|jsonl?|parquet|arrow|csv|tsv|txt|bin|idx|mds))+$", re.I
)
_PART = re.compile(
    r"[-_.]+(?!(?:19|20)\d\d$)\d+$|^\d+$|\d{5,}$"
    r"|(?:^|[-_.]+)(?:of|parts?|shards?|data|train|test|valid|validation|val|chunk|samples?|mds)$",
    re.I,
)
"""The end of a name that only tells parts of one data set apart; not a year."""


def source_names(datasets: Sequence[Any]) -> list[str]:
    """A name for each dataset: its attribute `source` or `name` where that is a text, else its
    class; with a number where that would give two the same.
    """
    names = []
    for dataset in datasets:
        given = (getattr(dataset, "source", None), getattr(dataset, "name", None))
        names.append(next((n for n in given if isinstance(n, str) and n), type(dataset).__name__))
    return numbered(names)


def numbered(names: Sequence[str]) -> list[str]:
    """Short enough for a record, and with a number where two would be the same."""
    short = [
        name.encode("utf-8", "replace")[:LONGEST_BYTES].decode("utf-8", "ignore") for name in names
    ]
    count, seen = Counter(short), Counter[str]()
    found = []
    for name in short:
        found.append(f"{name} {seen[name]}" if count[name] > 1 else name)
        seen[name] += 1
    return found


def names_of_files(paths: Sequence[str | None], datasets: Sequence[Any]) -> list[str]:
    """As names_of_paths, of a path of each dataset; as source_names where one has none."""
    known = [path for path in paths if path]
    return names_of_paths(known) if len(known) == len(datasets) else source_names(datasets)


def names_of_paths(paths: Sequence[str]) -> list[str]:
    """A name for each source from a path of it; from a folder above where only these differ."""
    parts = [path.rstrip("/").split("/") for path in paths]
    for above in range(6):
        names = [source_of_path("/".join(part[: len(part) - above] or part)) for part in parts]
        if len(set(names)) == len(names):
            return numbered(names)
    return numbered([source_of_path(path) for path in paths])


def source_of_path(path: str) -> str:
    """What the files of a data set have in common: `web` of data/web-00003.tar, and of
    data/web/train-00003-of-00010.parquet.
    """
    path = path.split("?", 1)[0].rstrip(" -")  # "pipe:curl URL -"
    folders = [part for part in path.split("/") if part and part[-1] != ":"]
    while folders:
        name = _ENDING.sub("", folders.pop())
        while (shorter := _PART.sub("", name)) != name:
            name = shorter
        if name:
            return name
    return UNNAMED


def first_path(value: Any, depth: int = 5) -> str | None:
    """The first text in nested lists and values of dicts that looks like the path of a file."""
    if isinstance(value, str):
        return value if "/" in value or "." in value else None
    if isinstance(value, Mapping):
        value = list(value.values())
    elif hasattr(value, "cache_files"):  # a Dataset of Hugging Face
        value = value.cache_files
    if depth and isinstance(value, (list, tuple)):
        found = (first_path(one, depth - 1) for one in value[:8])
        return next((path for path in found if path), None)
    return None
