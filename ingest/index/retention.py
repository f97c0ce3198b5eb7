"""Bounds on what is kept, and how long content is: rows of schema.CONTENT_TABLES, what went through
a model.

Steps and whole runs go only where a user asks for it (app/analysis/retention).
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
    """Bounds in age and bytes; None: no bound. A file is as old as the newest row in it."""

    seconds: float | None = None
    num_bytes: float | None = None

    @classmethod
    def parse(cls, text: str, option: str = "--keep-content") -> Keep:
        """`forever`, or an age (`12h`, `30d`, `2w`), a size (`500MB`, `20GB`), both with a comma.

        Raises ValueError, one sentence that names the option.
        """
        bounds: dict[str, float] = {}
        for part in [] if text == FOREVER else text.split(","):
            match = _PART.fullmatch(part.strip())
            name = "seconds" if match and match[2] in _SECONDS else "num_bytes"
            if match is None or name in bounds:
                raise ValueError(
                    f"{option} is {text[:40]!r}; give an age such as 30d, a size such as 20GB, "
                    f"both as 30d,20GB, or {FOREVER}"
                )
            bounds[name] = float(match[1]) * (_SECONDS | _BYTES)[match[2]]
        return cls(**bounds)

    @property
    def is_bounded(self) -> bool:
        """Whether there is any bound."""
        return self.seconds is not None or self.num_bytes is not None

    def horizon_ns(self, files: Iterable[tuple[int, int]], now_ns: int) -> float:
        """What was recorded before this moment is beyond the bounds: it is too old, or there are
        too many bytes with it. `files`: when the newest row of each was recorded, and its bytes.
        """
        horizon_ns = -math.inf if self.seconds is None else now_ns - self.seconds * 1e9
        left = math.inf if self.num_bytes is None else self.num_bytes
        for ts_ns, num_bytes in sorted(files, reverse=True):
            left -= num_bytes
            if left < 0:
                return max(horizon_ns, ts_ns + 1)
        return horizon_ns

    def too_much(self, entries: Iterable[FileEntry], now_ns: int) -> list[str]:
        """Paths of one run's files of content beyond the bounds."""
        content = [entry for entry in entries if entry.table_name in CONTENT_TABLES]
        files = [(entry.ts_max or 0, entry.num_bytes) for entry in content]
        horizon_ns = self.horizon_ns(files, now_ns)
        return [entry.path for entry in content if (entry.ts_max or 0) < horizon_ns]


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
