"""Where a job stands whose data hold no step: collectives that not all members have entered.

Such data (dumps of the Flight Recorder above all) compare nobody, but they say who is waited for.
A group waits for members that have no open collective while others of it do, and for those whose
oldest open one is older than that of others: the oldest counts, not the newest enqueued.

Source: the rule is ours. Not judged here: why, and whether the job was
only looked at in the middle of a collective.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_MOST_NAMED = 8


def describe_open_collectives(outstanding: pa.Table) -> str | None:
    """Who is waited for, in words, of the answer of `outstanding`; None where nothing is open."""
    rows = outstanding.to_pylist()
    num_open = sum(row["num_open"] > 0 for row in rows)
    if not num_open:
        return None
    waiting = [row for row in rows if row["absent"] or row["ahead"]]
    if not waiting:
        which = f"{num_open} group{' has' if num_open == 1 else 's have'}"
        return f"{which} open collectives, all entered by every known member."
    awaited = sorted({rank for row in waiting for rank in _awaited(row)})
    first = waiting[0]
    name = f"group {first['name'] or first['group_id']}"
    axis = "" if first["axis"] == "unknown" else f" ({first['axis']})"
    return (
        f"In {len(waiting)} of {len(rows)} groups, some members have not entered a collective that "
        f"others have: {name}{axis} waits in {first['op']} {_number(first):,} for "
        f"{_ranks(_awaited(first))}. Over all groups, the others wait for {_ranks(awaited)}."
    )


def _awaited(row: dict[str, Any]) -> list[int]:
    """Members that have not entered what others of the group have."""
    ranks: list[int] = row["absent"] or row["behind"]
    return ranks


def _number(row: dict[str, Any]) -> int:
    """Number of the collective in which the others wait."""
    number: int = row["seq"] if row["absent"] else row["ahead_seq"]
    return number


def _ranks(ranks: list[int]) -> str:
    named = ", ".join(map(str, ranks[:_MOST_NAMED]))
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {named}{more}"
