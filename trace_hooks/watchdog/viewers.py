"""Whether somebody looks at a run: a server touches its file `watched` while pages are open."""

from __future__ import annotations

from pathlib import Path

LOOK_S = 2.0
"""How often the file is looked at, which costs the file server a question."""

WATCHED_FOR_S = 10.0
"""Since the newest touch that was seen; servers touch the file every 2 s."""


class Viewers:
    """The runs of a host, and when somebody looked at them last.

    Only changes of the file count, never its age: the clocks of hosts and servers differ.
    """

    def __init__(self) -> None:
        self._stamps: dict[Path, int | None] = {}
        self._looked_s = self._changed_s = float("-inf")

    def look_in(self, folder: Path) -> None:
        """Look in this run folder, too."""
        if folder not in self._stamps:
            self._stamps[folder] = _stamp(folder)

    def are_there(self, now_s: float) -> bool:
        """Whether somebody looks at one of the runs (monotonic s)."""
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            stamps = {folder: _stamp(folder) for folder in self._stamps}
            if stamps != self._stamps:
                self._stamps, self._changed_s = stamps, now_s
        return now_s - self._changed_s < WATCHED_FOR_S


def _stamp(folder: Path) -> int | None:
    try:
        return (folder / "watched").stat().st_mtime_ns
    except OSError:
        return None
