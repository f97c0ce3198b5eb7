"""How much a file from outside may cost: settings with defaults that no honest trace meets.

Each is an environment variable, RANKSCOPE_ and the field's name in capitals. docs/formats.md lists
them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import cache

from ingest.errors import UserError

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Upper bounds per import; raises ValueError for a bound below 1."""

    max_files: int = 100_000
    """files in folders and archives of one import"""
    max_ranks: int = 1 << 17
    """ranks and world sizes above are damage; the largest known jobs have some 100,000"""
    max_inflated_mib: int = 64 << 10
    """what one file may unfold to"""
    max_inflation: int = 200
    """how many times its own size a file may unfold to; traces reach some 30"""
    inflated_free_mib: int = 256
    """what a file may unfold to whatever its size is"""
    max_value_mib: int = 64
    """one JSON value (an event, a header, a line)"""
    max_whole_mib: int = 512
    """files of formats that must lie in memory whole: pickles, protobuf, documents of JSON"""
    max_spooled_mib: int = 8 << 10
    """a database inside an archive, which is written to a temporary file to be read"""
    max_rows: int = 50_000_000
    """spans or collectives of one file"""
    max_seconds: int = 600
    """one query of a database from outside"""
    max_file_seconds: int = 600
    """reading one file, and a second more for every MiB of it"""
    max_reader_mib: int = 4096
    """address space of a process that reads files"""

    def __post_init__(self) -> None:
        for bound in fields(self):
            if getattr(self, bound.name) < 1:
                raise ValueError(f"{variable(bound.name)} must be 1 or more")


def variable(name: str) -> str:
    """The environment variable of a field."""
    return f"RANKSCOPE_{name.upper()}"


@cache
def limits() -> Limits:
    """The limits of this process; raises UserError for a variable that is no number."""
    given = {}
    for bound in fields(Limits):
        text = os.environ.get(variable(bound.name))
        if text is None:
            continue
        if not text.isdecimal() or len(text) > 18:
            raise UserError(
                f"{variable(bound.name)}={text} is not a whole number; give one or unset it"
            )
        given[bound.name] = int(text)
    try:
        return Limits(**given)
    except ValueError as error:
        raise UserError(str(error)) from None
