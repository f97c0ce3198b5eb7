"""One entry of a Flight Recorder dump: the fast way and the careful one agree; numbers match."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.readers.flight_recorder.entries import Entry, Numbering, entries_of
from ingest.readers.tables.finished_collectives import UNMATCHED_SEQ
from ingest.readers.tables.process_groups import Group

SOUND: dict[str, Any] = {
    "record_id": 0,
    "pg_id": 1,
    "process_group": ("0", "default_pg"),
    "collective_seq_id": 4,
    "p2p_seq_id": 0,
    "profiling_name": "nccl:all_reduce",
    "time_created_ns": 1_700_000_000_000_000_000,
    "input_sizes": ((2, 3),),
    "input_dtypes": ("BFloat16",),
    "output_sizes": ((2, 3),),
    "output_dtypes": ("BFloat16",),
    "state": "started",
    "retired": False,
    "is_p2p": False,
}


def test_a_sound_entry_is_the_same_both_ways() -> None:
    (fast,) = entries_of([SOUND])
    assert fast == Entry.of(SOUND)
    assert (fast.op, fast.dtype, fast.num_bytes) == ("all_reduce", "bfloat16", 12)
    assert (fast.state, fast.peer_in_group) == ("started", -1)


@pytest.mark.parametrize(
    "change",
    [{"state": "dreaming"}, {"time_created_ns": 0}, {"profiling_name": "no name: at all"}],
)
def test_a_damaged_one_costs_itself_only(change: dict[str, Any]) -> None:
    entries = entries_of([SOUND, SOUND | change, None])
    assert [entry.op for entry in entries] == ["all_reduce"]


def test_messages_are_numbered_by_pair_where_the_dump_is_whole() -> None:
    send = SOUND | {"profiling_name": "nccl:send 0->1", "is_p2p": True, "p2p_seq_id": 9}
    entries = entries_of([send | {"record_id": n} for n in range(2)])
    group = Group("0", "", (4, 5), "pp")
    assert entries[0].peer_of(group.ranks) == 5
    whole = Numbering(entries)
    assert [whole.seq(entry, 4, group, 5) for entry in entries] == [0, 1]
    cut = Numbering(entries[1:])
    assert cut.seq(entries[1], 4, group, 5) >= UNMATCHED_SEQ
