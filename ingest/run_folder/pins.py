"""pins.json of a run folder: links of the dashboard whose steps retention does not remove."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import msgspec

from ingest.errors import UserError
from ingest.run_folder.run_files import checked_json
from trace_hooks.schema import SCHEMA_VERSION, publish_json

PINS_FILE = "pins.json"
MOST_PINS = 10_000
_LONGEST = 8_000


class Pin(msgspec.Struct, frozen=True):
    """`link`: what a link has after the run's name; `pinned_ns`: when, Unix ns."""

    link: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST)]
    note: Annotated[str, msgspec.Meta(max_length=_LONGEST)] = ""
    pinned_ns: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0


class _File(msgspec.Struct):
    schema: str
    pins: Annotated[list[Pin], msgspec.Meta(max_length=MOST_PINS)]


_DECODER = msgspec.json.Decoder(_File)


def read_pins(run_folder: Path) -> list[Pin]:
    """The pins of a run, oldest first; raises UserError where pins.json is damaged."""
    path = run_folder / PINS_FILE
    return checked_json(path, _DECODER).pins if os.path.lexists(path) else []


def pin(run_folder: Path, link: str, note: str = "") -> None:
    """Pin a link, or give it another note; raises UserError."""
    pins = [one for one in read_pins(run_folder) if one.link != link]
    if len(pins) >= MOST_PINS or len(link) > _LONGEST or len(note) > _LONGEST:
        raise UserError(
            f"{run_folder.name} can have {MOST_PINS:,} pins, and a link or note {_LONGEST:,} "
            "characters; unpin others, or shorten it"
        )
    _write(run_folder, [*pins, Pin(link, note, time.time_ns())])


def unpin(run_folder: Path, link: str) -> bool:
    """Whether the link was pinned; it no longer is. Raises UserError."""
    pins = read_pins(run_folder)
    left = [one for one in pins if one.link != link]
    if len(left) < len(pins):
        _write(run_folder, left)
    return len(left) < len(pins)


def _write(run_folder: Path, pins: list[Pin]) -> None:
    content = {"schema": SCHEMA_VERSION, "pins": msgspec.to_builtins(pins)}
    try:
        publish_json(content, run_folder / PINS_FILE)
    except OSError as error:
        raise UserError(
            f"the pins of {run_folder} cannot be written ({error.strerror}); check the folder's "
            "permissions and the disk's free space"
        ) from error
