"""The JSON files of a run folder: run.json, ranks/*.json and layout.json, read with distrust.

What they say is checked once, here: types, ranges that the index can hold, a layout that the world
can have. Files that lie (or are no files) become one sentence, never an exception elsewhere.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any, NotRequired, TypedDict, TypeVar, cast

import msgspec

from ingest.errors import UserError
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import UNKNOWN, LayoutInfo, RankInfo, RunInfo, check_version

RUN_FILE = "run.json"
LAYOUT_FILE = "layout.json"
MAX_FILE_BYTES = 64 << 20
"""Greater ones are no file of a run: a rank's file has about 1 kB."""
_MAX_RANKS = 1 << 24

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Rank = Annotated[int, msgspec.Meta(ge=0, lt=_MAX_RANKS)]
_Count = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
_Size = Annotated[int, msgspec.Meta(ge=1, le=_MAX_RANKS)]


class _Run(TypedDict):
    """What is read of run.json, by schema.RunInfo."""

    schema: str
    run: str
    created_ns: _Int64
    clock: str
    source: str
    framework: NotRequired[str]
    versions: NotRequired[dict[str, Any]]
    model: NotRequired[Any]
    provenance: NotRequired[list[str]]
    guesses: NotRequired[list[str]]
    problems: NotRequired[list[str]]
    events_per_rank: NotRequired[dict[str, _Int64]]
    truth: NotRequired[Any]


class _Layout(TypedDict):
    axes: dict[str, _Size]
    experts: NotRequired[dict[str, _Size] | None]
    mesh: NotRequired[list[_Rank] | None]


class _End(TypedDict):
    ts_ns: NotRequired[_Int64 | None]
    status: NotRequired[str | None]
    error: NotRequired[str | None]


class _RankFile(TypedDict):
    """What is read of ranks/*.json, by schema.RankInfo."""

    schema: str
    attempt: Annotated[int, msgspec.Meta(ge=0, lt=2**15)]
    rank: _Rank
    world_size: _Count
    host: NotRequired[str | None]
    pid: NotRequired[_Int64 | None]
    local_rank: NotRequired[_Int64 | None]
    device: NotRequired[str | None]
    device_uuid: NotRequired[str | None]
    started_ns: NotRequired[_Int64 | None]
    layout: NotRequired[_Layout | None]
    coords: NotRequired[dict[str, _Count] | None]
    end: NotRequired[_End | None]
    hooks: NotRequired[Any]


class _LayoutFile(TypedDict):
    """What is read of layout.json, by schema.LayoutInfo."""

    schema: str
    layout: _Layout
    corrected_ns: _Int64


class _Versioned(TypedDict):
    schema: str


_VERSION_DECODER = msgspec.json.Decoder(_Versioned)
_RUN_DECODER = msgspec.json.Decoder(_Run)
_RANK_DECODER = msgspec.json.Decoder(_RankFile)
_LAYOUT_DECODER = msgspec.json.Decoder(_LayoutFile)
_T = TypeVar("_T")


def existing(path: Path | str) -> Path:
    """The path, if it leads somewhere; raises UserError where it does not or must not be read."""
    try:
        Path(path).stat()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; check the path") from None
    except (OSError, ValueError) as error:  # too long, a loop of links, not permitted; a null byte
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"{path} cannot be opened: {reason}; check the path") from None
    return Path(path)


def is_run_folder(folder: Path) -> bool:
    """Whether a folder holds a run."""
    try:
        return (folder / RUN_FILE).is_file()
    except OSError:
        return False


def _read(path: Path) -> bytes:
    """All of a regular file; raises OSError for anything else."""
    state = path.stat()
    if not S_ISREG(state.st_mode):
        raise OSError(f"{path} is no file")
    if state.st_size > MAX_FILE_BYTES:
        raise OSError(f"it has {state.st_size} bytes")
    return path.read_bytes()


def _checked(path: Path, decoder: msgspec.json.Decoder[_T]) -> _T:
    """Content of a JSON file; raises UserError unless it is what the decoder expects."""
    try:
        content = _read(path)
        schema = _decoded(content, _VERSION_DECODER)["schema"]
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    try:
        check_version(schema, path)  # before the rest: what a newer major writes may look different
    except ValueError as error:
        raise UserError(str(error)) from error
    try:
        return _decoded(content, decoder)
    except ValueError as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(f"{path} cannot be read as JSON ({error}); it is damaged or no file of a run")


def _decoded(content: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    """Content by the decoder, else by Python's, whose writer allows NaN (in a model, say)."""
    try:
        return decoder.decode(content)
    except msgspec.DecodeError:
        data = json.loads(content)
        json.dumps(data, ensure_ascii=False).encode()  # half a surrogate pair fits in no table
        return msgspec.convert(data, decoder.type)


def read_run_info(folder: Path) -> RunInfo:
    """run.json of a run folder; raises UserError when it is missing, damaged or too new."""
    path = folder / RUN_FILE
    if not existing(folder).is_dir():
        raise UserError(f"{folder} is no folder; give the folder of a run")
    if not is_run_folder(folder):
        raise UserError(f"{folder} holds no {RUN_FILE}, so it is no run folder; give one that does")
    info = cast(RunInfo, _checked(path, _RUN_DECODER))
    info.setdefault("framework", "")
    info.setdefault("versions", {})
    return info


def read_correction(folder: Path) -> ParallelLayout | None:
    """The layout that layout.json of a run folder says, None where there is no such file.

    Raises UserError where it is damaged or too new.
    """
    path = folder / LAYOUT_FILE
    if not path.exists():
        return None
    info = cast(LayoutInfo, _checked(path, _LAYOUT_DECODER))
    _check_size(info["layout"], path)
    try:
        return ParallelLayout.from_json(info["layout"])
    except ValueError as error:
        raise UserError(f"{path} is no layout ({error}); correct it again or delete it") from None


def _rank_info(path: Path) -> RankInfo:
    info = cast(RankInfo, _checked(path, _RANK_DECODER))
    layout = info.get("layout")
    if layout:
        _check_size(layout, path)
    return info


def _check_size(layout: dict[str, Any], path: Path) -> None:
    if math.prod(layout["axes"].values()) > _MAX_RANKS:
        raise UserError(f"{path} has a layout of more than {_MAX_RANKS} ranks; it is damaged")


def is_told(info: RankInfo) -> bool:
    """Whether the hooks of the job told this rank's layout; an import only infers it."""
    return bool(info.get("hooks")) and bool(info.get("layout"))


def corrected(info: RankInfo, layout: ParallelLayout) -> RankInfo:
    """A rank's file with the layout that was corrected by hand.

    What the hooks of the job told itself stays, and so does a rank of an attempt of another size.
    """
    is_outside = info["world_size"] not in (UNKNOWN, layout.world_size)
    if is_told(info) or is_outside or not layout.has(info["rank"]):
        return info
    found = info.copy()
    found["layout"], found["coords"] = layout.to_json(), layout.coords(info["rank"])
    found["world_size"] = layout.world_size
    return found


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
        """Every rank's file as it is, whatever layout.json says; in the order of read()."""
        self.read()
        with self._lock:
            return list(self._ranks)

    def _correct(self) -> None:
        self._layout_problem = ""
        try:
            layout = read_correction(self.run_folder)
        except UserError as error:
            layout, self._layout_problem = None, str(error)
        shown = self._ranks if layout is None else [corrected(i, layout) for i in self._ranks]
        self._corrected = shown

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
            return stamp, _rank_info(self.run_folder / "ranks" / name), ""
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
    """(time of change, inode, size) of layout.json; None where there is none."""
    try:
        state = (run_folder / LAYOUT_FILE).stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_ino, state.st_size


def rank_file_stamps(run_folder: Path) -> dict[str, _Stamp]:
    """Name -> (time of change, inode, size) of every ranks/*.json; raises UserError."""
    stamps = {}
    try:
        with os.scandir(run_folder / "ranks") as listing:
            for file in listing:
                if file.name.endswith(".json") and file.name[0] != ".":
                    state = file.stat()
                    stamps[file.name] = (state.st_mtime_ns, state.st_ino, state.st_size)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        where = run_folder / "ranks"
        raise UserError(f"{where} cannot be listed: {error.strerror}; check its rights") from None
    return stamps


DECODER_SIZES = ("parameters", "layers", "hidden", "seq")


def dense_decoder(info: RunInfo) -> dict[str, float | None]:
    """Sizes run.json says of a dense decoder: all of DECODER_SIZES, each None unless all are known.

    A model with `experts` is not dense: a token does not pass through all parameters.
    """
    given = info.get("model")
    model = given if isinstance(given, dict) else {}
    sizes = {name: _size(model.get(name)) for name in DECODER_SIZES}
    known = None not in sizes.values() and not model.get("experts")
    return {name: size if known else None for name, size in sizes.items()}


def _size(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < 1e18 else None
