"""Finding on processes that NCCL's RAS considers dead: unreachable on its network for a minute."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding
from diagnosis.statistics.rank_tables import placed
from diagnosis.statistics.shared_location import place_of
from diagnosis.stuck.evidence import NCCL_RAS
from diagnosis.stuck.several import said_of
from diagnosis.stuck.text import named

_MOST_NAMED = 4
_READ_LOGS = (
    "Look at the log of that process and of its host (dmesg, Xid and ECC errors, the "
    "out-of-memory killer); restart from the last checkpoint without that host."
)


def of_ras(looks: pa.Table, places: pa.Table, attempt: int) -> Finding | None:
    """Finding of the answers of rank_looks and rank_places; None where none is dead, or most are:
    then the job has ended.
    """
    rows = [row for row in looks.to_pylist() if row["source"] == NCCL_RAS]
    dead = [row for row in rows if row["process"] == "gone"]
    if not dead or 2 * len(dead) >= len(rows) > 1:
        return None
    ranks = [row["rank"] for row in dead]
    known = set(places["rank"].to_pylist())
    rank_R = np.array([rank for rank in ranks if rank in known], np.int64)
    at = placed(rank_R, places)
    hosts = {row["host"] for row in dead}
    is_host = len(dead) > 1 and len(hosts) == 1 and None not in hosts
    whole = is_host and all(row in dead for row in rows if row["host"] in hosts)
    what = [f"{row['pid']} on {row['host'] or 'its host'}" for row in dead[:_MOST_NAMED]]
    more = f" and {len(dead) - _MOST_NAMED} more" if len(dead) > _MOST_NAMED else ""
    who = f"All ranks of {dead[0]['host']}" if whole else named(ranks)
    text = (
        f"NCCL's RAS considers {'these processes' if len(dead) > 1 else 'this process'} dead, "
        f"unreachable on its network for a minute: {', '.join(what)}{more}."
    )
    view = (("page", "stuck"), ("attempt", attempt))
    return Finding(
        kind="silent_host" if whole else "dead_rank",
        attempt=attempt,
        severity="urgent",
        confidence="high",
        title=f"{who[:1].upper()}{who[1:]} {'is' if len(dead) == 1 else 'are'} dead",
        text=text,
        culprits=tuple(place_of(at, row) for row in range(rank_R.size)),
        victims=tuple(sorted(known - set(ranks))),
        first_step=0,
        last_step=0,
        ongoing=True,
        evidence=(Evidence(text, float(len(dead)), "ranks", "rank_looks", view[1:], view),),
        alternatives=("Its host or network is cut off, and the process lives.",),
        next_step=said_of(_READ_LOGS, len(dead)),
        hosts=(dead[0]["host"],) if whole else (),
        cause=text,
    )
