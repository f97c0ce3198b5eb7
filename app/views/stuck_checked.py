"""What was looked at in a run in which nothing is stuck, in a sentence, and when."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

_IN_WORDS = {"finished": "finished", "failed": "failed", "stopped": "stopped by a signal"}
_OF_FILES = {
    "flight_recorder": "The dumps of {ranks} were compared: which collectives each has entered.",
    "nccl_ras": "The counts of {ranks} were compared: how many collectives each has launched.",
    "logs": "The logs were searched for lines that are known to end jobs.",
}


def heard_ns(signs: pa.Table) -> int | None:
    """When a rank last reported, Unix ns; rows of last_signs."""
    return max((ns for ns in signs.column("last_ns").to_pylist() if ns is not None), default=None)


def what_was_checked(source: str, signs: pa.Table, num_ranks: int, num_looked: int = 0) -> str:
    """A sentence; `source`: as in run.json, `signs`: rows of last_signs, `num_looked`: ranks that
    a watchdog has looked at because they made no progress.
    """
    if source in _OF_FILES:
        return _OF_FILES[source].format(ranks=_counted(num_ranks))
    if not signs.num_rows:
        return "No rank has sent a heartbeat: what the ranks do is not known."
    statuses = Counter(signs.column("status").to_pylist())
    running = statuses.pop(None, 0)
    ended = ", ".join(
        f"{number:,} {_IN_WORDS.get(status, status)}" for status, number in sorted(statuses.items())
    )
    if not running:
        return f"{_counted(signs.num_rows)} ended: {ended}."
    some = signs.num_rows < num_ranks
    who = f"{signs.num_rows:,} of {_counted(num_ranks)}" if some else _counted(signs.num_rows)
    lead = f"Heartbeats of {who} came in"
    also = f"; {ended}" if ended else ""
    still = "neither began a step nor entered a collective for longer than usual"
    if num_looked:
        return f"{lead}{also}. Watchdogs looked at {_counted(num_looked)} that {still}."
    return f"{lead}{also}. No watchdog saw a rank that {still}."


def _counted(number: int) -> str:
    return "1 rank" if number == 1 else f"{number:,} ranks"
