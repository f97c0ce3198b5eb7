"""The JSON files of a run folder: run.json, ranks/*.json and layout.json, read with distrust.

Their content is checked once, here: types, ranges that the index can hold, a layout that the world
can have. Files that lie (or are no files) become one sentence, never an exception in another
module.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict, TypeVar, cast

import msgspec

from ingest.errors import UserError
from ingest.run_folder.run_paths import Linked, plain_file, read_plain_file
from trace_hooks.layout import MOST_RANKS, ParallelLayout
from trace_hooks.schema import LayoutInfo, RankInfo, RunInfo, check_version
from trace_hooks.schema.bounds import LARGEST, MAX_RANKS

RUN_FILE = "run.json"
LAYOUT_FILE = "layout.json"
MAX_FILE_BYTES = 64 << 20
"""Greater ones are no file of a run: a rank's file has about 1 kB."""

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Moment = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
"""Unix ns until the year 2116: durations are added to it in int64."""
_Rank = Annotated[int, msgspec.Meta(ge=0, lt=MAX_RANKS)]
_Count = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
_Size = Annotated[int, msgspec.Meta(ge=1, le=MAX_RANKS)]


class _Run(TypedDict):
    """What is read of run.json, by schema.RunInfo."""

    schema: str
    run: str
    created_ns: _Moment
    clock: str
    source: str
    framework: NotRequired[str]
    versions: NotRequired[dict[str, Any]]
    model: NotRequired[Any]
    provenance: NotRequired[list[str]]
    guesses: NotRequired[list[str]]
    problems: NotRequired[list[str]]
    events_per_rank: NotRequired[dict[str, _Int64]]
    importing: NotRequired[bool]
    truth: NotRequired[Any]


class _Layout(TypedDict):
    axes: dict[str, _Size]
    experts: NotRequired[dict[str, _Size] | None]
    mesh: NotRequired[list[_Rank] | None]


class _End(TypedDict):
    ts_ns: NotRequired[_Moment | None]
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
    started_ns: NotRequired[_Moment | None]
    layout: NotRequired[_Layout | None]
    coords: NotRequired[dict[str, _Count] | None]
    end: NotRequired[_End | None]
    hooks: NotRequired[Any]


class _LayoutFile(TypedDict):
    """What is read of layout.json, by schema.LayoutInfo."""

    schema: str
    layout: _Layout
    corrected_ns: _Moment


class _Versioned(TypedDict):
    schema: str


_VERSION_DECODER = msgspec.json.Decoder(_Versioned)
_RUN_DECODER = msgspec.json.Decoder(_Run)
_RANK_DECODER = msgspec.json.Decoder(_RankFile)
_LAYOUT_DECODER = msgspec.json.Decoder(_LayoutFile)
_LAYOUT_REMEDY = "correct it again or delete it"
_T = TypeVar("_T")


def existing(path: Path | str) -> Path:
    """The path, if it leads somewhere; raises UserError where it does not or must not be read."""
    try:
        Path(path).stat()
    except FileNotFoundError:
        if str(path).startswith("s3:/"):  # not repeated: credentials may be in it
            raise UserError(
                "only rankscope serve and rankscope import read and write runs in s3://; give the "
                "path of a run folder on a disk"
            ) from None
        raise UserError(f"{path} does not exist; check the path") from None
    except (OSError, ValueError) as error:  # too long, a loop of links, not permitted; a null byte
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"{path} cannot be opened: {reason}; check the path") from None
    return Path(path)


def is_run_folder(folder: Path) -> bool:
    """Whether a folder holds a run."""
    try:
        plain_file(folder / RUN_FILE)
    except (OSError, ValueError):
        return False
    return True


def checked_json(
    path: Path, decoder: msgspec.json.Decoder[_T], remedy: str = "restore it from a backup"
) -> _T:
    """Content of a JSON file; raises UserError unless it is what the decoder expects.

    `remedy`: what to do about a damaged one, which ends the sentence.
    """
    try:
        content = read_plain_file(path, MAX_FILE_BYTES)
        schema = _decoded(content, _VERSION_DECODER)["schema"]
    except Linked as error:
        raise UserError(f"{path} cannot be read: {error}; replace it by a regular file") from error
    except PermissionError as error:
        raise UserError(f"{path} cannot be read; check its permissions") from error
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error, remedy) from error
    try:
        check_version(schema, path)  # before the rest: what a newer major writes may look different
    except ValueError as error:
        raise UserError(str(error)) from error
    try:
        return _decoded(content, decoder)
    except ValueError as error:
        raise _damaged(path, error, remedy) from error


def _damaged(path: Path, error: Exception, remedy: str) -> UserError:
    reason: object = error
    if isinstance(error, json.JSONDecodeError):
        reason = f"line {error.lineno}, column {error.colno}"
    return UserError(
        f"{path} cannot be read as JSON ({reason}); it is damaged or not a file of a run: {remedy}"
    )


def _decoded(content: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    """Content by the decoder, else by Python's: its writer allows NaN (in a model for instance)."""
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
        raise UserError(f"{folder} is not a folder; give the folder of a run")
    if not is_run_folder(folder) and not path.is_symlink():
        raise UserError(f"{folder} has no {RUN_FILE}, so it is not a run folder; give one that has")
    info = cast(RunInfo, checked_json(path, _RUN_DECODER))
    info.setdefault("framework", "")
    info.setdefault("versions", {})
    return info


@dataclass(frozen=True)
class Correction:
    """The layout that somebody corrected by hand, and when (Unix ns)."""

    layout: ParallelLayout
    corrected_ns: int


def read_correction(folder: Path) -> Correction | None:
    """Content of layout.json of a run folder, None without such a file.

    Raises UserError where it is damaged or too new.
    """
    path = folder / LAYOUT_FILE
    if not os.path.lexists(path):
        return None
    info = cast(LayoutInfo, checked_json(path, _LAYOUT_DECODER, _LAYOUT_REMEDY))
    _check_size(info["layout"], path)
    try:
        return Correction(ParallelLayout.from_json(info["layout"]), info["corrected_ns"])
    except ValueError as error:
        raise UserError(f"{path} is not a layout ({error}); {_LAYOUT_REMEDY}") from None


def read_rank_info(path: Path) -> RankInfo:
    """One of ranks/*.json; raises UserError where it is damaged or too new."""
    info = cast(RankInfo, checked_json(path, _RANK_DECODER))
    layout = info.get("layout")
    if layout:
        _check_size(layout, path)
    return info


def _check_size(layout: dict[str, Any], path: Path) -> None:
    if math.prod(layout["axes"].values()) > MOST_RANKS:
        raise UserError(f"{path} has a layout of more than {MOST_RANKS} ranks; it is damaged")


DECODER_SIZES = ("parameters", "layers", "hidden", "seq")


def dense_decoder(info: RunInfo) -> dict[str, float | None]:
    """Sizes of a dense decoder in run.json: all of DECODER_SIZES, each None unless all are known.

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
