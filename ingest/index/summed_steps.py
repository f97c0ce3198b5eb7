"""Steps whose spans their rank summed up: their rows of the rollups are these sums."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.query.index_sql import index_sql
from ingest.query.manifest import Connection

_STATEMENTS = ("sums_of_steps", "spans_of_summed_steps", "sums_of_kinds")


def apply_sums(connection: Connection, touched: Mapping[int, tuple[int, int]]) -> None:
    """Put the sums into the rollups of these steps, which have just been computed of spans.

    `touched`: first and last step by attempt.
    """
    if connection.execute("SELECT count(*) FROM summed_steps").fetchall() == [(0,)]:
        return
    for attempt, (low, high) in sorted(touched.items()):
        values = {"attempt": attempt, "step_min": low, "step_max": high}
        for name in _STATEMENTS:
            connection.execute(index_sql(name), values)
