"""What the page Experts says of ranks: how long their all-to-alls take, where time is idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.views.experts.loads import Steps
from ingest.run import Run
from ingest.stopping import Stop

MOST_ROWS = 128

Row = dict[str, Any]


@dataclass(frozen=True)
class ExpertRanks:
    """`times`: plain rows of the saved query expert_times, slowest all-to-alls first; `num_ranks`:
    how many there are, of which these are the first; `read_steps`: from which steps.
    """

    times: tuple[Row, ...]
    num_ranks: int
    read_steps: Steps | None


def expert_ranks_of(run: Run, attempt: int, steps: Steps, stop: Stop | None = None) -> ExpertRanks:
    """Of the steps, both included."""
    rows = run.ask(
        "expert_times", attempt=attempt, step_min=steps[0], step_max=steps[1], stop=stop
    ).to_pylist()
    called = [row for row in rows if row["all_to_alls"]]
    called.sort(key=lambda row: (-row["all_to_all_p99_ms"], row["rank"]))
    return ExpertRanks(
        times=tuple(called[:MOST_ROWS]),
        num_ranks=len(called),
        read_steps=_read(rows),
    )


def _read(rows: Sequence[Row]) -> Steps | None:
    known = [(row["first_step"], row["last_step"]) for row in rows if row["first_step"] is not None]
    return (min(one for one, _ in known), max(one for _, one in known)) if known else None
