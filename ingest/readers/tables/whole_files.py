"""What several readers share: a whole file in memory, the rank in a file's name."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from ingest.limits import MIB, limits, variable
from ingest.readers.base import Sink
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.rows import rows

_LAST_NUMBER = re.compile(r"(\d{1,9})\D*$")
_NAMED_RANK = re.compile(r"(?:^|[^a-z])(?:rank|worker)[-_ ]?(\d{1,9})(?!\d)", re.IGNORECASE)


class TooLarge(ValueError):
    """A file that must lie in memory whole is larger than allowed."""


def all_of(source: Source) -> bytes:
    """The whole file; raises TooLarge above RANKSCOPE_MAX_WHOLE_MIB."""
    most = limits().max_whole_mib * MIB
    pieces: list[bytes] = []
    size = 0
    while piece := source.read(1 << 20):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            name = variable("max_whole_mib")
            raise TooLarge(
                f"is larger than {name}={limits().max_whole_mib}, left out; raise the limit to "
                "read it"
            )
    return b"".join(pieces)


def named_rank(name: str) -> int | None:
    """Rank in a file's name behind the word rank or worker; None without one that jobs have."""
    match = _NAMED_RANK.search(PurePath(name).name)
    return possible_rank(match[1]) if match else None


def rank_of_name(name: str) -> int | None:
    """Rank in a file's name: behind rank or worker, else the last number of its stem; None without
    one that jobs have.
    """
    stem = PurePath(name).name.partition(".")[0]
    match = _NAMED_RANK.search(PurePath(name).name) or _LAST_NUMBER.search(stem)
    return possible_rank(match[1]) if match else None


def possible_rank(digits: str) -> int | None:
    """The rank that digits name; None above RANKSCOPE_MAX_RANKS: a date or a job's number."""
    return int(digits) if int(digits) < limits().max_ranks else None


def add_imported_clock(sink: Sink, rank: int, ts_ns: int) -> None:
    """Notes that the rank's clock is used as it is, with nothing known of its error."""
    clock = {"ts_ns": ts_ns, "offset_ns": 0, "drift_ppb": 0, "method": "imported"}
    sink.add_rows("clocks", rank, rows("clocks", 1, {"rank": rank, **clock}))


@contextmanager
def on_disk(source: Source) -> Iterator[Path]:
    """The file as one that can be jumped about in: itself, or a copy that is removed afterwards.

    Raises TooLarge for a copy above RANKSCOPE_MAX_SPOOLED_MIB.
    """
    if source.path is not None:
        yield source.path
        return
    most = limits().max_spooled_mib * MIB
    with tempfile.NamedTemporaryFile(prefix="rankscope-") as copy:
        size = 0
        while piece := source.read(1 << 20):
            size += len(piece)
            if size > most:
                bound = f"{variable('max_spooled_mib')}={limits().max_spooled_mib}"
                raise TooLarge(f"is a database of more than {bound} inside an archive; unpack it")
            copy.write(piece)
        copy.flush()
        yield Path(copy.name)
