"""ranks/*.json of a run folder, and what layout.json corrects in them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.errors import UserError
from ingest.run_folder.run_files import LAYOUT_FILE, read_correction, read_rank_info
from ingest.run_folder.run_paths import listed
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import UNKNOWN, RankInfo


def has_recorded_layout(info: RankInfo) -> bool:
    """Whether the hooks of the job recorded this rank's layout; an import only infers it."""
    return bool(info.get("hooks")) and bool(info.get("layout"))


def corrected(info: RankInfo, layout: ParallelLayout) -> RankInfo:
    """A rank's file with the layout that was corrected by hand.

    What the hooks of the job recorded stays, and so does a rank of an attempt of another size.
    """
    is_outside = info["world_size"] not in (UNKNOWN, layout.world_size)
    if has_recorded_layout(info) or is_outside or not layout.has(info["rank"]):
        return info
    fixed = info.copy()
    fixed["layout"], fixed["coords"] = layout.to_json(), layout.coords(info["rank"])
    fixed["world_size"] = layout.world_size
    return fixed


def with_layout_of_others(infos: list[RankInfo]) -> list[RankInfo]:
    """Rank files of a job with hooks in which some ranks did not find the layout (their mesh was
    gone when they looked), with that of the others of the attempt, where these agree.
    """
    if all(info.get("layout") for info in infos):
        return infos
    known: dict[int, list[dict[str, Any]]] = {}
    for info in infos:
        layout = info["layout"] if has_recorded_layout(info) else None
        if layout is not None and layout not in known.get(info["attempt"], ()):
            known.setdefault(info["attempt"], []).append(layout)
    return [_as_the_others(info, known.get(info["attempt"], [])) for info in infos]


def _as_the_others(info: RankInfo, known: list[dict[str, Any]]) -> RankInfo:
    if info.get("layout") or not info.get("hooks") or len(known) != 1:
        return info
    try:
        layout = ParallelLayout.from_json(known[0])
    except ValueError:
        return info
    if info["world_size"] != layout.world_size or not layout.has(info["rank"]):
        return info
    fixed = info.copy()
    fixed["layout"], fixed["coords"] = known[0], layout.coords(info["rank"])
    return fixed


_SETTLED_NS = 1_000_000_000
"""A folder changed longer ago than this will not change again with the same time stamp."""

_Stamp = tuple[int, int, int]


@dataclass
class RankFiles:
    """ranks/*.json of a run folder, each read again only when it has changed. Thread-safe.

    Where layout.json corrects the layout, they are shown as corrected.
    """

    run_folder: Path
    _seen_ns: int = -1
    _seen_layout: _Stamp | None = None
    _by_name: dict[str, tuple[_Stamp, RankInfo | None, str]] = field(default_factory=dict)
    _ranks: list[RankInfo] = field(default_factory=list)
    _corrected: list[RankInfo] | None = None
    _problems: list[str] = field(default_factory=list)
    _layout_problem: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> tuple[list[RankInfo], list[str]]:
        """Every rank's file, ordered by (attempt, rank), and one sentence per file set aside."""
        with self._lock:
            try:
                changed_ns = (self.run_folder / "ranks").stat().st_mtime_ns
            except OSError:
                changed_ns = 0
            if changed_ns != self._seen_ns:
                self._look()
                is_settled = time.time_ns() - changed_ns > _SETTLED_NS
                self._seen_ns = changed_ns if is_settled else -1
            stamp = layout_stamp(self.run_folder)
            if stamp != self._seen_layout or self._corrected is None:
                self._correct()
                self._seen_layout = stamp
            more = [self._layout_problem] if self._layout_problem else []
            return list(self._corrected or ()), [*self._problems, *more]

    def as_read(self) -> list[RankInfo]:
        """Every rank's file as it is, without layout.json; in the order of read()."""
        self.read()
        with self._lock:
            return list(self._ranks)

    def _correct(self) -> None:
        self._layout_problem = ""
        try:
            correction = read_correction(self.run_folder)
        except UserError as error:
            correction, self._layout_problem = None, str(error)
        as_read = with_layout_of_others(self._ranks)
        self._corrected = (
            as_read if correction is None else [corrected(i, correction.layout) for i in as_read]
        )

    def _look(self) -> None:
        known, self._by_name = self._by_name, {}
        for name, stamp in rank_file_stamps(self.run_folder).items():
            entry = known.get(name)
            self._by_name[name] = entry if entry and entry[0] == stamp else self._entry(name, stamp)
        if self._by_name == known:
            return
        self._corrected = None
        entries = [self._by_name[name] for name in sorted(self._by_name)]
        self._ranks = [info for _, info, _ in entries if info is not None]
        self._ranks.sort(key=lambda info: (info["attempt"], info["rank"]))
        self._problems = [problem for _, _, problem in entries if problem]
        self._leave_doubles_out()

    def _entry(self, name: str, stamp: _Stamp) -> tuple[_Stamp, RankInfo | None, str]:
        try:
            return stamp, read_rank_info(self.run_folder / "ranks" / name), ""
        except UserError as error:
            return stamp, None, str(error)

    def _leave_doubles_out(self) -> None:
        kept: dict[tuple[int, int], RankInfo] = {}
        for info in self._ranks:
            key = info["attempt"], info["rank"]
            if kept.setdefault(key, info) is not info:
                self._problems.append(
                    f"{self.run_folder / 'ranks'} has two files of rank {key[1]}, attempt {key[0]};"
                    " the first by name counts"
                )
        self._ranks = list(kept.values())


def layout_stamp(run_folder: Path) -> _Stamp | None:
    """(time of change, inode, size) of layout.json; None without one."""
    try:
        state = (run_folder / LAYOUT_FILE).lstat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_ino, state.st_size


def rank_file_stamps(run_folder: Path) -> dict[str, _Stamp]:
    """Name -> (time of change, inode, size) of every ranks/*.json; raises UserError."""
    stamps = {}
    try:
        for file in listed(run_folder / "ranks", ".json"):
            state = file.stat(follow_symlinks=False)
            stamps[file.name] = (state.st_mtime_ns, state.st_ino, state.st_size)
    except OSError as error:
        where = run_folder / "ranks"
        raise UserError(
            f"{where} cannot be listed: {error.strerror}; check its permissions"
        ) from None
    return stamps
