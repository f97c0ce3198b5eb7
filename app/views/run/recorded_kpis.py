"""The tiles of a run without steps: its records, and its open collectives."""

from __future__ import annotations

from app.views.run.kpi import Kpi
from app.views.run.without_steps import Recorded, ranks_text


def recorded_kpis(counts: Recorded) -> list[Kpi]:
    """The tiles of a run without steps: its records, and its open collectives."""
    if not counts.num_collectives:
        by = f"by {_many(counts.num_ranks, 'rank')}"
        meaning = "No step of this run is known."
        return [Kpi("recorded", "Spans recorded", f"{counts.num_spans:,}", "", by, meaning)]
    num_open = sum(front.num_open for front in counts.fronts)
    apart = [front for front in counts.fronts if front.is_apart]
    groups = sum(front.num_open > 0 for front in counts.fronts)
    kpis = [
        Kpi(
            "recorded",
            "Collectives recorded",
            f"{counts.num_collectives:,}",
            "",
            f"by {_many(counts.num_ranks, 'rank')}, in {_many(len(counts.fronts), 'group')}",
            "Collectives, sends and receives, counted once per member.",
        ),
        Kpi(
            "open",
            "Not completed",
            f"{num_open:,}",
            "",
            f"in {_many(groups, 'group')}" if num_open else "all of them ended",
            "Collectives, sends and receives without a recorded end.",
        ),
    ]
    if apart:
        first = apart[0]
        kpis.append(
            Kpi(
                "apart",
                "Groups out of sync",
                f"{len(apart):,}",
                "",
                f"{_ranks(first.behind)} at {first.op} {first.seq:,}",
                "Groups whose members are at different collectives: those that are ahead wait for "
                "those that are behind or silent.",
                "bad",
            )
        )
    return kpis


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {ranks_text(ranks, 16)}"
