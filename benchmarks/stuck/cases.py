"""The ways in which jobs get stuck, with what is right to report of each."""

from __future__ import annotations

from typing import NamedTuple

from diagnosis.detectors.stuck import NETWORK_MS
from diagnosis.stuck.causes import LOOP_MS, MISSING_MS, SILENT_MS, STILL_MS

CULPRITS = {4: 2, 8: 5}
"""By the number of ranks, as in job.py."""


class Case(NamedTuple):
    """Kinds that are right, and who has to be named; no kinds: nothing is stuck.

    `evidence_s`: how long the rank has to stay away before that is evidence: until then what it
    does may be slow, not stuck (diagnosis/stuck/causes.py).
    """

    kinds: tuple[str, ...]
    who: str = "culprit"
    evidence_s: float = 0.0

    def ranks(self, num_ranks: int) -> tuple[int, ...]:
        """Global ranks that have to be named."""
        culprit = CULPRITS[num_ranks]
        pair = {4: (2, 3), 8: (5, 7)}[num_ranks]  # of one data-parallel group
        return {"culprit": (culprit,), "rank 0": (0,), "pair": pair, "nobody": ()}[self.who]


MISSING = Case(("missing_rank",), evidence_s=MISSING_MS / 1e3)
HUNG = Case(("hung_rank",))
STORAGE = Case(("stalled_storage",), evidence_s=STILL_MS / 1e3)
SLOW = Case((), "nobody")
CASES = {
    "sleep": MISSING,
    "rank-0": MISSING._replace(who="rank 0"),
    "all-to-all": MISSING,
    "barrier": MISSING,
    "send": MISSING,
    "new-group": MISSING,
    "operation": Case(("mismatched_op",)),
    "smaller": Case(("mismatched_size",)),
    "larger": Case(("mismatched_size",)),
    "dtype": Case(("mismatched_dtype",)),
    "order": Case(("group_order_deadlock",), "pair"),
    "killed": Case(("dead_rank",)),
    "memory": Case(("first_error", "dead_rank")),
    "exception": Case(("first_error", "dead_rank")),
    "stopped": HUNG,
    "gil": HUNG._replace(evidence_s=SILENT_MS / 1e3),
    "loop": HUNG._replace(evidence_s=LOOP_MS / 1e3),
    "loader": Case(("data_stalled",)),
    "loader-dead": Case(("first_error", "dead_rank")),
    "restore": STORAGE,
    "save": STORAGE,
    "open": STORAGE,
    "network": Case(("stalled_network",), "nobody", NETWORK_MS / 1e3),
    "evaluation": SLOW,
    "checkpoint": SLOW,
    "compilation": SLOW,
    "input": SLOW,
}
