"""Files of a run that a rank sends to a server with which it shares no disk.

On the wire: RSP1, the length of a JSON header (uint32, little-endian), the header {"name"}, and the
file. Only the files that a rank writes about itself have a name here: its segments, its own file,
and run.json. Pure.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass

from trace_hooks.schema import SegmentName

MAGIC = b"RSP1"
RUN_FILE = "run.json"
_SEGMENTS, _RANKS = "segments/", "ranks/"
_RANK_FILE = re.compile(r"ranks/(\d{4})-(\d{5})\.json", re.ASCII)
_LONGEST_HEADER = 1_000


@dataclass(frozen=True)
class Parcel:
    """One file; raises ValueError for a name that no file of a rank has.

    `name`: path below the run's folder. `segment`: what is in it, None for a file of JSON.
    """

    name: str
    data: bytes

    def __post_init__(self) -> None:
        if self.segment is None and self.name != RUN_FILE and not _RANK_FILE.fullmatch(self.name):
            raise ValueError(f"{self.name[:100]!r} is not a file of a rank")

    @property
    def segment(self) -> SegmentName | None:
        """Table, attempt, rank and number of a segment; None for a file of JSON."""
        is_segment = self.name.startswith(_SEGMENTS)
        return SegmentName.parse(self.name.removeprefix(_SEGMENTS)) if is_segment else None

    @property
    def rank(self) -> int | None:
        """The rank it belongs to; None for the file of the run."""
        segment = self.segment
        match = _RANK_FILE.fullmatch(self.name)
        return segment.rank if segment else int(match[2]) if match else None

    @property
    def attempt(self) -> int | None:
        """The attempt it belongs to; None for the file of the run."""
        segment = self.segment
        match = _RANK_FILE.fullmatch(self.name)
        return segment.attempt if segment else int(match[1]) if match else None

    def encode(self) -> bytes:
        """The file's bytes on the wire."""
        header = json.dumps({"name": self.name}).encode()
        return b"".join((MAGIC, struct.pack("<I", len(header)), header, self.data))


def segment_path(segment: SegmentName) -> str:
    """Path of a segment below the run's folder."""
    return f"{_SEGMENTS}{segment}"


def decode(encoded: bytes) -> Parcel:
    """Parcel of what `encode` made; raises ValueError, one sentence, for anything else."""
    if encoded[:4] != MAGIC or len(encoded) < 8:
        raise ValueError("this is not a file of a rank: it does not begin with RSP1")
    (size,) = struct.unpack_from("<I", encoded, 4)
    if size > _LONGEST_HEADER or 8 + size > len(encoded):
        raise ValueError(f"a file's header claims {size} bytes, which are not there")
    try:
        name = json.loads(encoded[8 : 8 + size])["name"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise ValueError("a file's header is not JSON with a name") from None
    if not isinstance(name, str):
        raise ValueError("a file's name is not text")
    return Parcel(name, encoded[8 + size :])
