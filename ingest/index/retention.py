"""How long content is kept: rows of schema.CONTENT_TABLES, what went through a model.

Everything else of a run is kept until the run is deleted.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ingest.index.index_database import IndexDatabase
from ingest.query.manifest import FileEntry, read_entry
from ingest.run_folder.run_paths import DATA, listed
from trace_hooks.schema import CONTENT_TABLES

FOREVER = "forever"
_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(h|d|w|MB|GB|TB)")


@dataclass(frozen=True)
class Keep:
    """Bounds on the content of each run; None: no bound.

    Files go whole; a file is as old as the newest row in it.
    """

    seconds: float | None = None
    num_bytes: float | None = None

    @classmethod
    def parse(cls, text: str) -> Keep:
        """`forever`, or an age (`12h`, `30d`, `2w`), a size (`500MB`, `20GB`), both with a comma.

        Raises ValueError, one sentence.
        """
        bounds: dict[str, float] = {}
        for part in [] if text == FOREVER else text.split(","):
            match = _PART.fullmatch(part.strip())
            name = "seconds" if match and match[2] in _SECONDS else "num_bytes"
            if match is None or name in bounds:
                raise ValueError(
                    f"--keep-content is {text[:40]!r}; give an age such as 30d, a size per run "
                    f"such as 20GB, both as 30d,20GB, or {FOREVER}"
                )
            bounds[name] = float(match[1]) * (_SECONDS | _BYTES)[match[2]]
        return cls(**bounds)

    @property
    def is_bounded(self) -> bool:
        """Whether there is any bound."""
        return self.seconds is not None or self.num_bytes is not None

    def too_much(self, entries: Iterable[FileEntry], now_ns: int) -> list[str]:
        """Paths of one run's files beyond the bounds: of too many bytes the oldest."""
        least_ns = -math.inf if self.seconds is None else now_ns - self.seconds * 1e9
        left = math.inf if self.num_bytes is None else self.num_bytes
        paths = []
        content = [entry for entry in entries if entry.table_name in CONTENT_TABLES]
        for entry in sorted(
            content, key=lambda entry: (entry.ts_max or 0, entry.path), reverse=True
        ):
            left -= entry.num_bytes
            if left < 0 or (entry.ts_max or 0) < least_ns:
                paths.append(entry.path)
        return paths


KEEP_ALL = Keep()


def retire_old_content(database: IndexDatabase, keep: Keep) -> int:
    """Retire content beyond the bounds; it is deleted once readers had time to move on. Returns the
    number of files. Raises what the database raises, with nothing done.
    """
    if not keep.is_bounded:
        return 0
    now_ns = time.time_ns()
    entries = [entry for table in CONTENT_TABLES for entry in database.manifest.entries(table)]
    paths = keep.too_much(entries, now_ns)
    if paths:
        with database.transaction():
            database.manifest.retire(paths, now_ns)
    return len(paths)


def content_files(run_folder: Path) -> list[FileEntry]:
    """The sound files of content in a run's folder, by their footers."""
    names = tuple(f"{table}-" for table in CONTENT_TABLES)
    paths: list[str] = []
    for folder in DATA:
        with suppress(OSError):
            files = listed(run_folder / folder, ".parquet")
            paths += [f"{folder}/{file.name}" for file in files if file.name.startswith(names)]
    entries = [read_entry(run_folder, path)[0] for path in paths]
    return [entry for entry in entries if entry.problem is None]
