"""Log files of one rank, which the watchdog reads as they grow and once more when the rank is gone.

They hold what the rank's last moments were: what C++ code writes before it aborts, or a traceback
of a rank whose own threads no longer run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trace_hooks.job.process_info import host_name
from trace_hooks.log_text.line_rows import LineRows
from trace_hooks.recording.clock import now

MOST_BYTES = 1 << 20
"""At a time; what is more is left out, from its beginning."""


class RankLogs:
    """New lines of a rank's files. `files`: path by stream."""

    def __init__(self, files: Mapping[str, str], keeps_all: bool) -> None:
        self._rows = {
            Path(file): LineRows(stream, "/".join(Path(file).parts[-3:]), keeps_all)
            for stream, file in files.items()
        }
        self._read: dict[Path, int] = dict.fromkeys(self._rows, 0)

    def take(self, is_over: bool = False) -> list[dict[str, Any]]:
        """Rows of log_lines on the host's monotonic clock; `is_over`: the rank writes no more."""
        return [
            {**row, "host": host_name()}
            for path, rows in self._rows.items()
            for row in self._take(path, rows, is_over)
        ]

    def _take(self, path: Path, rows: LineRows, is_over: bool) -> list[dict[str, Any]]:
        with suppress(OSError):
            size = path.stat().st_size
            if size > self._read[path]:
                with path.open("rb") as file:
                    file.seek(max(self._read[path], size - MOST_BYTES))
                    data = file.read(MOST_BYTES)
                    self._read[path] = file.tell()  # it may have grown since
                rows.add(data.decode("utf-8", "replace"), now())
        return rows.take(now(), is_over)
