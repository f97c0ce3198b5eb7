"""The tables that compare worlds: what is found, and what is named falsely on healthy jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.accuracy.cases import HEALTHY, WORLDS
from benchmarks.accuracy.intervals import clopper_pearson
from benchmarks.accuracy.judge import Outcome
from benchmarks.accuracy.score import score
from benchmarks.accuracy.tables import AUDIBLE, Tally, f1_in_words, share_in_words, tallies

MILLION = 1_000_000


def found_by_world(outcomes: Sequence[Outcome]) -> list[str]:
    """One row per world: F1 by dose, located, onset, and what is named falsely on faulty jobs."""
    names = (
        "world",
        "jobs",
        "faults",
        "F1, loud and quiet (95 %)",
        "F1, masked (95 %)",
        "located, loud and quiet (95 %)",
    )
    names += ("located, masked (95 %)", "onset <= 2 steps", "false names", "true of the noise")
    names += ("untrue of the job", "crashes")
    rows = []
    for world in WORLDS:
        chosen = [o for o in outcomes if o.case.world == world and o.case.kind != HEALTHY]
        if not chosen:
            continue
        loud = _tally(o for o in chosen if o.case.dose in AUDIBLE)
        masked = _tally(o for o in chosen if o.case.dose == "masked")
        both = loud + masked
        scored = [score(o.labels, o.findings) for o in chosen]
        cells = [
            world,
            len(chosen),
            both.labels,
            *(f1_in_words(one) for one in (loud, masked)),
            *(share_in_words(one.located, one.labels) for one in (loud, masked)),
            f"{both.onset_share:.3f}",
            sum(len(one.false) + len(one.innocents) for one in scored),
            sum(len(one.of_noise) for one in scored),
            sum(len(one.untrue) for one in scored),
            sum(bool(o.error) for o in chosen),
        ]
        rows.append(f"| {' | '.join(map(str, cells))} |".replace("nan", "-"))
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|", *rows]


def _tally(outcomes: Iterable[Outcome]) -> Tally:
    found = tallies(score(o.labels, o.findings) for o in outcomes)
    return sum(found.values(), Tally())


def healthy_by_world(outcomes: Sequence[Outcome]) -> list[str]:
    """One row per world: jobs and rank-steps without a fault, and what is wrong about them."""
    names = ["world", "healthy jobs", "rank-steps", "ranks, stages or hosts named"]
    names += ["per million rank-steps (95 %)", "jobs in which anybody is named (95 %)"]
    names += ["true of the noise", "untrue about the job", "true about the job", "crashes"]
    chosen = [o for o in outcomes if o.case.kind == HEALTHY]
    groups = [(world, [o for o in chosen if o.case.world == world]) for world in WORLDS]
    rows = [_healthy_row(world, some) for world, some in [*groups, ("**all**", chosen)] if some]
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|", *rows]


def _healthy_row(world: str, outcomes: Sequence[Outcome]) -> str:
    scored = [score((), o.findings) for o in outcomes]
    steps = sum(o.rank_steps for o in outcomes)
    named = sum(_num_named(finding) for one in scored for finding in one.false)
    jobs = sum(bool(one.false) for one in scored)
    untrue = sum(len(one.untrue) for one in scored)
    total = sum(len(o.findings) for o in outcomes)
    of_noise = sum(len(one.of_noise) for one in scored)
    others = untrue + of_noise + sum(len(one.false) for one in scored)
    low, high = (MILLION * share for share in clopper_pearson(min(named, steps), steps))
    low_job, high_job = (100 * share for share in clopper_pearson(jobs, len(outcomes)))
    cells = [
        world,
        len(outcomes),
        f"{steps:,}",
        named,
        f"{MILLION * named / max(steps, 1):.2f} ({low:.2f}-{high:.2f})",
        f"{jobs} ({low_job:.1f}-{high_job:.1f} %)",
        of_noise,
        untrue,
        total - others,
        sum(bool(o.error) for o in outcomes),
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _num_named(finding: dict[str, object]) -> int:
    places = [finding.get(name) or [] for name in ("ranks", "stages", "hosts")]
    return max(len(place) for place in places)  # type: ignore[arg-type]
