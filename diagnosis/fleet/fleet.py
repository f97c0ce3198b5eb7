"""A fleet: everything that is said of all runs of a folder, or of some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from diagnosis.fleet.hosts import SlowHosts
from diagnosis.fleet.over_time import OverTime, over_time
from diagnosis.fleet.summary import Summary
from diagnosis.fleet.totals import (
    Cause,
    ModelRow,
    Slowdowns,
    by_model,
    causes,
    lost_hours,
    slowdowns,
)


@dataclass(frozen=True)
class Fleet:
    """`rank_hours`, `lost_hours`: of all runs; a rank-hour is a GPU-hour where ranks have a GPU
    each. `num_judged`: runs with enough data for at least one detector. `num_without_hours`: runs
    whose wall time is unknown. `hosts`: always of all runs, also where the rest is of some.
    """

    num_runs: int
    num_judged: int
    num_without_hours: int
    rank_hours: float
    lost_hours: float
    started_ns: tuple[int, int] | None
    slowdowns: Slowdowns
    causes: tuple[Cause, ...]
    over_time: OverTime
    models: tuple[ModelRow, ...]
    hosts: SlowHosts

    @property
    def lost_share(self) -> float | None:
        """Of the rank-hours, what was lost to a known cause; None without any."""
        return self.lost_hours / self.rank_hours if self.rank_hours > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Plain values; findings of hosts by run, id, kind and title only."""
        plain = asdict(self) | {"lost_share": self.lost_share}
        plain["hosts"]["named"] = [
            {
                "host": one.host,
                "num_runs": one.num_runs,
                "num_slow": one.num_slow,
                "expected": one.expected,
                "p_value": one.p_value,
                "p_in_place": one.p_in_place,
                "is_place_possible": one.is_place_possible,
                "ranks": list(one.ranks),
                "kinds": list(one.kinds),
                "runs": [
                    {"run": run, "finding": found.id, "kind": found.kind, "title": found.title}
                    for run, found in one.runs
                ],
            }
            for one in self.hosts.named
        ]
        return plain


def fleet(runs: Mapping[str, Summary], hosts: SlowHosts) -> Fleet:
    """Sums of some runs, by name; `hosts`: of all runs, as a choice among them would be a choice
    among chances.
    """
    own = list(runs.values())
    times = [run.started_ns for run in own if run.started_ns is not None]
    return Fleet(
        num_runs=len(own),
        num_judged=sum(run.judged for run in own),
        num_without_hours=sum(run.rank_hours is None for run in own),
        rank_hours=sum(run.rank_hours or 0.0 for run in own),
        lost_hours=sum(sum(lost_hours(run).values()) for run in own),
        started_ns=(min(times), max(times)) if times else None,
        slowdowns=slowdowns(own),
        causes=causes(own),
        over_time=over_time(own),
        models=by_model(own),
        hosts=hosts,
    )
