"""Which ranks and steps have the members of a collective, by the sums in the index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.query.manifest import Narrowing
from ingest.query.snapshot import Snapshot

_PLACE = """
SELECT min(rank) AS rank_min, max(rank) AS rank_max, min(step) AS step_min, max(step) AS step_max
FROM collective_rollup
WHERE attempt = $attempt AND group_id = $group_id AND first_seq <= $seq AND last_seq >= $seq
    AND NOT EXISTS (FROM evaluations WHERE attempt = $attempt)
"""
"""What lies in an evaluation is in no sum, so where there are any it may be anywhere."""

_NAMES = ("attempt", "group_id", "seq")


def place_of_instance(snapshot: Snapshot, values: Mapping[str, Any]) -> Narrowing:
    """Attempt, ranks and steps that hold all its members; of unknown ones only the attempt.

    `values`: attempt, group_id and seq.
    """
    wanted = {name: values[name] for name in _NAMES}
    (row,) = snapshot.index_rows(_PLACE, wanted, None)
    return Narrowing(attempt=values["attempt"], **row)
