"""The ways in which jobs get stuck, with what is right to report of each."""

from __future__ import annotations

from typing import NamedTuple

CULPRITS = {4: 2, 8: 5}
"""By the number of ranks, as in job.py."""


class Case(NamedTuple):
    """Kinds that are right, and who has to be named; no kinds: nothing is stuck."""

    kinds: tuple[str, ...]
    who: str = "culprit"

    def ranks(self, num_ranks: int) -> tuple[int, ...]:
        """Global ranks that have to be named."""
        culprit = CULPRITS[num_ranks]
        pair = {4: (2, 3), 8: (5, 7)}[num_ranks]  # of one data-parallel group
        return {"culprit": (culprit,), "rank 0": (0,), "pair": pair, "nobody": ()}[self.who]


MISSING, HUNG = Case(("missing_rank",)), Case(("hung_rank",))
STORAGE = Case(("stalled_storage",))
SLOW = Case((), "nobody")
CASES = {
    "sleep": MISSING,
    "rank-0": Case(("missing_rank",), "rank 0"),
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
    "memory": Case(("dead_rank",)),
    "exception": Case(("first_error", "dead_rank")),
    "stopped": HUNG,
    "gil": HUNG,
    "loop": HUNG,
    "loader": Case(("data_stalled",)),
    "loader-dead": Case(("first_error", "dead_rank")),
    "restore": STORAGE,
    "save": STORAGE,
    "open": STORAGE,
    "network": Case(("stalled_network",), "nobody"),
    "evaluation": SLOW,
    "checkpoint": SLOW,
    "compilation": SLOW,
    "input": SLOW,
}
