"""retention.json of a run folder: the steps that retention takes out of a run, and what it keeps.

It is written before anything is deleted, and stays: whoever indexes the run (a server,
`rankscope index`, `rankscope gc` itself) leaves these steps out from then on and removes their
rows, those of files that come late, too. So a crash at any moment is harmless, and an index that is
rebuilt is the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from ingest.errors import UserError
from ingest.run_folder.run_files import checked_json
from ingest.run_folder.step_ranges import StepRange, united
from trace_hooks.schema import SCHEMA_VERSION, publish_json

RETENTION_FILE = "retention.json"
_MOST_RANGES = 100_000

_Step = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Attempt = Annotated[int, msgspec.Meta(ge=0, lt=2**15)]


class _Range(msgspec.Struct):
    attempt: _Attempt
    first: _Step
    last: _Step


class _Kept(_Range, kw_only=True):
    why: str


class _File(msgspec.Struct):
    schema: str
    removed: Annotated[list[_Range], msgspec.Meta(max_length=_MOST_RANGES)]
    kept: Annotated[list[_Kept], msgspec.Meta(max_length=_MOST_RANGES)] = []


_DECODER = msgspec.json.Decoder(_File)
_REMEDY = (
    "restore it from a backup, or delete it together with the folder index/: then the steps that "
    "are left in files count again"
)


class Kept(msgspec.Struct, frozen=True, order=True):
    """Steps that stay, however old they are. `why`: what points at them."""

    steps: StepRange
    why: str


class Retention(msgspec.Struct, frozen=True):
    """Content of retention.json; nothing is in both."""

    removed: tuple[StepRange, ...] = ()
    kept: tuple[Kept, ...] = ()

    def with_more(self, removed: Iterable[StepRange], kept: Iterable[Kept]) -> Retention:
        """With more of both; what is removed stays so."""
        all_kept = sorted({*self.kept, *kept})
        return Retention(tuple(united([*self.removed, *removed])), tuple(all_kept))


def read_retention(run_folder: Path) -> Retention:
    """What a run's retention.json holds, nothing without one; raises UserError if damaged."""
    path = run_folder / RETENTION_FILE
    if not os.path.lexists(path):
        return Retention()
    content = checked_json(path, _DECODER, _REMEDY)
    removed, kept = (
        [StepRange(one.attempt, one.first, one.last) for one in ranges]
        for ranges in (content.removed, content.kept)
    )
    wrong = next((one for one in (*removed, *kept) if one.last < one.first), None)
    if wrong is not None:
        raise UserError(
            f"{path} has a range from step {wrong.first} to {wrong.last}, which ends before it "
            f"begins: {_REMEDY}"
        )
    reasons = (one.why for one in content.kept)
    return Retention(tuple(united(removed)), tuple(map(Kept, kept, reasons)))


def write_retention(run_folder: Path, retention: Retention) -> None:
    """Write retention.json atomically; raises OSError."""
    plain = msgspec.to_builtins(retention)
    kept = [{**one["steps"], "why": one["why"]} for one in plain["kept"]]
    content = {"schema": SCHEMA_VERSION, "removed": plain["removed"], "kept": kept}
    publish_json(content, run_folder / RETENTION_FILE)
