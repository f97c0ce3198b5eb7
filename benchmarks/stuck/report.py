"""Tables of what was reported of stuck jobs and of slow ones."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from benchmarks.accuracy.intervals import wilson
from benchmarks.stuck.outcome import Outcome

HEAD = "| case | ranks | status s | finding s | after | right | wrong | dumps | fr_trace |"
_COLUMNS = (
    "| case | ranks | jobs | right | status p50 / p95 s | finding p50 / p95 s | after the end "
    "| wrong | dumps alone | fr_trace on them |"
)


_TIMES = {
    "status_s": "until somebody is reported to wait",
    "finding_s": "until the finding is there",
    "delay_s": "from when there is evidence until the finding is there",
}


def row(outcome: Outcome) -> str:
    """One job, as a line of the table under HEAD."""
    times = [_seconds(outcome.status_s), _seconds(outcome.finding_s)]
    yes = [("no", "yes")[is_so] for is_so in (outcome.after, outcome.is_right)]
    theirs = [_named(outcome, ranks) for ranks in (outcome.dumps, outcome.fr_trace)]
    cells = [outcome.case, outcome.num_ranks, *times, *yes, _listed(outcome.wrong), *theirs]
    return f"| {' | '.join(map(str, cells))} |"


def report(outcomes: Sequence[Outcome]) -> str:
    """All tables, as Markdown."""
    stuck = [one for one in outcomes if not one.is_control]
    controls = [one for one in outcomes if one.is_control]
    return "\n".join([*_summary(stuck), "", *_by_case(stuck), "", *_controls(controls), ""])


def _summary(stuck: Sequence[Outcome]) -> list[str]:
    """What counts, over all jobs that got stuck."""
    right, after = sum(one.is_right for one in stuck), sum(one.after for one in stuck)
    loads = sorted(one.load for one in stuck)
    lines = [
        "| over all jobs that got stuck | |",
        "|---|---|",
        f"| kind and ranks right, and nothing else reported | {_share(right, len(stuck))} |",
        f"| the same from the run folder, all processes killed | {_share(after, len(stuck))} |",
    ]
    for name, what in _TIMES.items():
        known = [value for one in stuck if (value := getattr(one, name)) is not None]
        lines.append(f"| {what}, p50 / p95, s | {_quantiles(known)} |")
    if loads:
        lines.append(
            f"| load of the machine at the onset, median | {statistics.median(loads):.1f} |"
        )
    return lines


def _by_case(stuck: Iterable[Outcome]) -> list[str]:
    groups: dict[tuple[str, int], list[Outcome]] = defaultdict(list)
    for one in stuck:
        groups[one.case, one.num_ranks].append(one)
    lines = [_COLUMNS, "|" + "---|" * 10]
    for (case, num_ranks), jobs in sorted(groups.items()):
        cells = [
            case,
            num_ranks,
            len(jobs),
            sum(one.is_right for one in jobs),
            _quantiles([one.status_s for one in jobs if one.status_s is not None]),
            _quantiles([one.finding_s for one in jobs if one.finding_s is not None]),
            sum(one.after for one in jobs),
            _listed({text for one in jobs for text in one.wrong}),
            _how_right(jobs, [one.dumps for one in jobs]),
            _how_right(jobs, [one.fr_trace for one in jobs]),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _controls(controls: Iterable[Outcome]) -> list[str]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for one in controls:
        groups[one.case].append(one)
    lines = [
        "| slow, not stuck | jobs | minutes | longest, minutes | findings |",
        "|---|---|---|---|---|",
    ]
    for case, jobs in sorted(groups.items()):
        minutes = [one.watched_s / 60 for one in jobs]
        wrong = _listed({text for one in jobs for text in one.wrong})
        lines.append(
            f"| {case} | {len(jobs)} | {sum(minutes):.0f} | {max(minutes):.0f} | {wrong} |"
        )
    return lines


def _how_right(jobs: Sequence[Outcome], named: Sequence[list[int] | None]) -> str:
    """How often exactly the culprits, nobody, or an innocent is named from dumps."""
    pairs = [(one, ranks) for one, ranks in zip(jobs, named, strict=True) if one.has_dumps]
    if not pairs:
        return "no dumps"
    exact = sum(ranks == one.culprits for one, ranks in pairs)
    innocent = sum(bool(set(ranks or ()) - set(one.culprits)) for one, ranks in pairs)
    return f"{exact} of {len(pairs)}" + (f", {innocent} name innocents" if innocent else "")


def _named(outcome: Outcome, ranks: list[int] | None) -> str:
    return "-" if not outcome.has_dumps else "error" if ranks is None else str(ranks)


def _share(part: int, whole: int) -> str:
    low, high = wilson(part, whole)
    return f"{part} of {whole} ({low:.0%}-{high:.0%})"


def _quantiles(values: Sequence[float]) -> str:
    known = sorted(values)
    if not known:
        return "-"
    p95 = known[min(int(0.95 * len(known)), len(known) - 1)]
    return f"{statistics.median(known):.1f} / {p95:.1f}"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(sorted(texts)) or "-"
