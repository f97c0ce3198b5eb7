"""One entry of a Flight Recorder dump, checked field by field, and its number."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from ingest.readers.parsing.trace_events import MAX_COUNT, MAX_NS
from ingest.readers.tables.finished_collectives import UNMATCHED_SEQ
from ingest.readers.tables.process_groups import Group
from ingest.readers.tables.torch_names import DTYPES, op_name
from trace_hooks.schema import UNKNOWN

_STATES = {"scheduled": "enqueued", "started": "started", "completed": "completed"}
_PROFILED = re.compile(r"(?:\w+:)?(\w+)(?: (\d{1,9})(?:->|<-)(\d{1,9}))?")
_LONGEST_OP = 64
_LONGEST_COUNT = 20
_LONGEST_PROFILED = 256
_MOST_KEPT = 1024


class Entry(NamedTuple):
    """What is kept of an entry; times in Unix ns, 0 where unknown, numbers -1 where unknown."""

    record_id: int
    pg_id: int
    group: str
    desc: str
    op: str
    peer_in_group: int
    is_p2p: bool
    collective_seq: int
    p2p_seq: int
    created_ns: int
    started_ns: int
    completed_ns: int
    state: str
    dtype: str
    num_bytes: int

    @classmethod
    def of(cls, record: object) -> Entry | None:
        """The entry; None where what makes one is missing or of another type."""
        if not isinstance(record, Mapping):
            return None
        state = _STATES.get(str(_scalar(record.get("state"))))
        created_ns = count_of(record.get("time_created_ns"))
        profiled = _profiled(str(_scalar(record.get("profiling_name")))[:_LONGEST_PROFILED])
        if state is None or profiled is None or not 0 < created_ns < MAX_NS:
            return None
        op, peer_in_group = profiled
        name, desc = _named(record.get("process_group"))
        side = "output" if op == "recv" else "input"
        dtype, num_bytes = _payload(record.get(f"{side}_sizes"), record.get(f"{side}_dtypes"))
        return cls(
            record_id=count_of(record.get("record_id")),
            pg_id=count_of(record.get("pg_id")),
            group=name,
            desc=desc,
            op=op,
            peer_in_group=peer_in_group,
            is_p2p=peer_in_group >= 0 or record.get("is_p2p") is True,
            collective_seq=count_of(record.get("collective_seq_id")),
            p2p_seq=count_of(record.get("p2p_seq_id")),
            created_ns=created_ns,
            started_ns=_time(record.get("time_discovered_started_ns")),
            completed_ns=_time(record.get("time_discovered_completed_ns")),
            # an entry that is retired was seen to be over; on gloo its state stays as it was
            state="completed" if record.get("retired") is True else state,
            dtype=dtype,
            num_bytes=num_bytes,
        )

    def peer_of(self, ranks: Sequence[int]) -> int:
        """Global rank of the other side of a message; -1 none or unknown."""
        return ranks[self.peer_in_group] if 0 <= self.peer_in_group < len(ranks) else UNKNOWN


_Count = Annotated[int, msgspec.Meta(ge=0, lt=MAX_COUNT)]
_Shapes = Annotated[
    tuple[Annotated[tuple[_Count, ...], msgspec.Meta(max_length=16)], ...],
    msgspec.Meta(max_length=64),
]
_Dtypes = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=64)], ...], msgspec.Meta(max_length=64)
]


class _Sound(msgspec.Struct, gc=False):
    """An entry as PyTorch writes it; a key that is missing is as Entry.of takes it."""

    state: Literal["scheduled", "started", "completed"]
    time_created_ns: Annotated[int, msgspec.Meta(gt=0, lt=MAX_NS)]
    profiling_name: Annotated[str, msgspec.Meta(max_length=_LONGEST_PROFILED)]
    process_group: tuple[str, str] = ("", "")
    record_id: _Count = UNKNOWN
    pg_id: _Count = UNKNOWN
    collective_seq_id: _Count = UNKNOWN
    p2p_seq_id: _Count = UNKNOWN
    time_discovered_started_ns: _Count | None = None
    time_discovered_completed_ns: _Count | None = None
    input_sizes: _Shapes = ()
    input_dtypes: _Dtypes = ()
    output_sizes: _Shapes = ()
    output_dtypes: _Dtypes = ()
    retired: bool = False
    is_p2p: bool = False

    def entry(self) -> Entry | None:
        """What Entry.of makes of it."""
        profiled = _profiled(self.profiling_name)
        if profiled is None:
            return None
        op, peer_in_group = profiled
        if op == "recv":
            dtype, num_bytes = _known_payload(self.output_sizes, self.output_dtypes)
        else:
            dtype, num_bytes = _known_payload(self.input_sizes, self.input_dtypes)
        return Entry(
            self.record_id,
            self.pg_id,
            *self.process_group,
            op,
            peer_in_group,
            peer_in_group >= 0 or self.is_p2p,
            self.collective_seq_id,
            self.p2p_seq_id,
            self.time_created_ns,
            self.time_discovered_started_ns or 0,
            self.time_discovered_completed_ns or 0,
            "completed" if self.retired else _STATES[self.state],
            dtype,
            num_bytes,
        )


def entries_of(records: list[Any]) -> list[Entry]:
    """What is kept of the entries of a dump, in their order; damaged ones are left out.

    A dump as PyTorch writes it is checked at once, in C. Where anything in it is odd each entry is
    looked at by itself.
    """
    entries: Iterable[Entry | None]
    try:
        entries = (sound.entry() for sound in msgspec.convert(records, list[_Sound]))
    except (msgspec.ValidationError, UnicodeEncodeError):  # the latter: half a surrogate
        entries = map(Entry.of, records)
    return [entry for entry in entries if entry is not None]


class Numbering:
    """Numbers that are equal on all members of an instance, and on nothing else.

    Collectives carry their number in the group. Messages carry one over all messages of the rank
    in the group, which differs between the two sides: they are counted per (source, destination)
    where the dump goes back to the first record, else set apart so that they match nothing.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._is_whole = [entry.record_id for entry in entries] == list(range(len(entries)))
        self._seen: dict[tuple[int, int, int], int] = defaultdict(int)

    def seq(self, entry: Entry, rank: int, group: Group, peer: int) -> int:
        """Number of the next entry; entries come in the order of their record_id."""
        if not entry.is_p2p:
            seq = entry.collective_seq
            return seq if seq >= 0 else 2 * UNMATCHED_SEQ + max(entry.record_id, 0)
        is_recv = entry.op == "recv"
        if not self._is_whole or peer == UNKNOWN:
            return UNMATCHED_SEQ + 2 * max(entry.p2p_seq, 0) + is_recv
        pair = (group.group_id, *((peer, rank) if is_recv else (rank, peer)))
        self._seen[pair] += 1
        return self._seen[pair] - 1


def _named(group: object) -> tuple[str, str]:
    """Name and description of a process group; empty where unknown."""
    if not isinstance(group, tuple | list):
        return "", ""
    name = str(_scalar(group[0])) if group else ""
    return name, str(_scalar(group[1])) if len(group) > 1 else ""


@lru_cache(_MOST_KEPT)
def _profiled(text: str) -> tuple[str, int] | None:
    """Operation, and index in the group of a message's other side (-1 none)."""
    match = _PROFILED.fullmatch(text)
    if match is None:
        return None
    op = op_name(match[1]) or match[1].lower()[:_LONGEST_OP]
    return op, int(match[3]) if match[3] else UNKNOWN


@lru_cache(_MOST_KEPT)
def _dtype(text: str) -> tuple[str, int]:
    """Torch's name and bytes of an element; 0 unknown."""
    return DTYPES.get(text.lower(), ("", 0))


def _scalar(value: object) -> object:
    """Texts and numbers as they are; anything that could be deep or large as nothing."""
    return value if isinstance(value, str | int) else ""


def count_of(value: object) -> int:
    """A number from itself or, as JSON may have it, its text; -1 for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < _LONGEST_COUNT:
        value = int(value)
    return value if type(value) is int and 0 <= value < MAX_COUNT else UNKNOWN


def _time(value: object) -> int:
    """A time in ns; 0 for none (null in pickles, 0 in JSON)."""
    return max(count_of(value), 0)


def _payload(sizes: object, dtypes: object) -> tuple[str, int]:
    """Torch's name of the first dtype, and the bytes of all tensors; -1 unknown."""
    listed = dtypes if isinstance(dtypes, list | tuple) else []
    known = [_dtype(str(_scalar(dtype))) for dtype in listed]
    shapes = sizes if isinstance(sizes, list | tuple) else []
    name = known[0][0] if known else ""
    if not shapes or len(shapes) != len(known):
        return name, UNKNOWN
    total = 0
    for shape, (_, size) in zip(shapes, known, strict=True):
        num_bytes = _product(shape) * size
        if num_bytes <= 0 and not _is_empty(shape):
            return name, UNKNOWN
        total += num_bytes
    return name, total if total < MAX_COUNT else UNKNOWN


_known_payload = lru_cache(_MOST_KEPT)(_payload)


def _product(shape: Any) -> int:
    """Elements of a tensor; -1 for what is no shape."""
    product = 1
    for size in shape if isinstance(shape, list | tuple) else [UNKNOWN]:
        if type(size) is not int or not 0 <= size < MAX_COUNT or product > MAX_COUNT:
            return UNKNOWN
        product *= size
    return product


def _is_empty(shape: Any) -> bool:
    return _product(shape) == 0
