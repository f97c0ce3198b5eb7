"""Sizes of a StragglerAnalysis job: parallel degrees and world size, from yaml or metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_MAX_YAML_BYTES = 1 << 12
_MOST_BRACKETS = 64
"""PyYAML's time grows with the square of the depth; the sizes lie flat."""
_SIZES = ("dp_size", "pp_size", "tp_size", "dsp_size", "world_size")


def sizes_in(text: bytes) -> dict[str, int] | None:
    """Sizes of a yaml; None for anything else."""
    if len(text) > _MAX_YAML_BYTES or b"dp_size" not in text or b"pp_size" not in text:
        return None
    if text.count(b"[") + text.count(b"{") > _MOST_BRACKETS:
        return None
    import yaml  # here: every reading process would pay for it

    try:
        return _checked(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: a date that does not exist
        return None


def sizes_in_metadata(metadata: Mapping[bytes, bytes]) -> dict[str, int] | None:
    """Sizes among the keys of the Parquet metadata, or in one value that is yaml or JSON."""
    own = _checked({key.decode("utf-8", "replace"): text for key, text in metadata.items()})
    return own or next(_found_in(metadata.values()), None)


def _found_in(texts: Iterable[bytes]) -> Iterator[dict[str, int]]:
    for text in texts:
        if (sizes := sizes_in(text)) is not None:
            yield sizes


def _checked(data: object) -> dict[str, int] | None:
    if not isinstance(data, dict):
        return None
    sizes = {name: int(data[name]) for name in _SIZES if str(_text(data.get(name))).isdecimal()}
    return sizes if {"dp_size", "pp_size", "tp_size"} <= set(sizes) else None


def _text(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def sizes_in_folder(path: Path) -> dict[str, dict[str, int]]:
    """Sizes by the path of each yaml in the folder of a file that has any; what cannot be read has
    none.
    """
    candidates = {
        str(other): sizes_in(_beginning(other))
        for other in sorted(path.parent.glob("*.y*ml"))
        if other.is_file()
    }
    return {name: sizes for name, sizes in candidates.items() if sizes is not None}


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_YAML_BYTES + 1)
    except OSError:
        return b""
