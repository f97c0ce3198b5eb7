"""The tile of ranks that report: of a job with hooks now, of all other runs those recorded."""

from __future__ import annotations

from collections import Counter

from app.views.run.kpi import Kpi
from ingest.run import Run

_REPORTING = (
    "Ranks whose data arrived within the last 10 s (20 s with collectors), or that have finished."
)
_RECORDED = (
    "Ranks of which there are files. They were imported or generated, so they say nothing about "
    "whether a rank was still alive at the end: findings do, where heartbeats were recorded."
)


def reporting(
    run: Run, attempt: int | None, ended: tuple[tuple[int, float], ...], now_ns: int
) -> Kpi | None:
    """The tile at a time, Unix ns; None for an attempt before the newest: its ranks can no longer
    report. `ended`: how many ranks ended each step.
    """
    newest, states = run.newest_attempt, run.rank_states(now_ns)
    if not states or attempt not in (None, newest):
        return None
    sizes = [info["world_size"] for info in run.ranks if info["attempt"] == newest]
    world = max([len(states), *sizes])
    num_reporting = sum(state in ("running", "finished") for state in states.values())
    num_missing, is_live = world - num_reporting, run.info["source"] == "hooks"
    is_over = set(states.values()) == {"finished"}
    if num_missing:
        detail = f"{num_missing:,} not {'reporting' if is_live else 'recorded'}"
    elif is_over:
        detail = _how_they_ended(run, newest)
    else:
        ages = run.ask("data_age", now_ns=now_ns).column("data_age_s").drop_null().to_pylist()
        detail = f"last heartbeat of each within {max(ages, default=0.0):.1f} s"
    return Kpi(
        "heard",
        "Ranks reporting" if is_live else "Ranks recorded",
        f"{num_reporting:,} / {world:,}",
        "",
        detail,
        _REPORTING if is_live else _RECORDED,
        "bad" if num_missing and is_live else "plain",
        ended if is_over else _ended_by_all(ended, world),
    )


def _how_they_ended(run: Run, attempt: int) -> str:
    """Of ranks that report no longer; files of other tools seldom say it."""
    ends = [info.get("end") for info in run.ranks if info["attempt"] == attempt]
    statuses = Counter("end not recorded" if end is None else end["status"] for end in ends)
    if len(statuses) == 1:
        status = next(iter(statuses))
        return "ends not recorded" if status == "end not recorded" else f"all {status}"
    return ", ".join(f"{count:,} {status}" for status, count in statuses.most_common())


def _ended_by_all(
    ended: tuple[tuple[int, float], ...], world: int
) -> tuple[tuple[int, float], ...]:
    """Up to the last step that all ranks ended: later ones are still running."""
    last = max((index for index, (_, count) in enumerate(ended) if count >= world), default=-1)
    return ended[: last + 1]
