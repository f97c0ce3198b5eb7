"""The JSON files of a run folder: run.json and ranks/*.json, read with distrust."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from ingest.errors import UserError
from trace_hooks.schema import RankInfo, RunInfo, check_version

RUN_FILE = "run.json"
_RUN_KEYS = ("schema", "run", "created_ns", "clock", "source")
_RANK_KEYS = ("schema", "attempt", "rank", "world_size")


def is_run_folder(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / RUN_FILE).is_file()


def _json_object(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """JSON object of a file; raises UserError unless it is one with these keys and a version."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON ({error}); it is damaged") from error
    missing = [key for key in keys if not isinstance(data, dict) or key not in data]
    if missing:
        raise UserError(f"{path} has no {', '.join(missing)}; it is damaged or no file of a run")
    try:
        check_version(str(data["schema"]), path)
    except ValueError as error:
        raise UserError(str(error)) from error
    return cast(dict[str, Any], data)


def read_run_info(folder: Path) -> RunInfo:
    """run.json of a run folder; raises UserError when it is missing, damaged or too new."""
    path = folder / RUN_FILE
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; give the folder of a run")
    if not path.is_file():
        raise UserError(f"{folder} holds no {RUN_FILE}, so it is no run folder; give one that does")
    info = cast(RunInfo, _json_object(path, _RUN_KEYS))
    info.setdefault("framework", "")
    info.setdefault("versions", {})
    return info


def read_ranks(folder: Path) -> tuple[list[RankInfo], list[str]]:
    """Every ranks/*.json, ordered by (attempt, rank), and one sentence per file set aside."""
    ranks, problems = [], []
    for path in sorted((folder / "ranks").glob("*.json")):
        if path.name.startswith("."):
            continue
        try:
            ranks.append(cast(RankInfo, _json_object(path, _RANK_KEYS)))
        except UserError as error:
            problems.append(str(error))
    return sorted(ranks, key=lambda info: (info["attempt"], info["rank"])), problems


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
