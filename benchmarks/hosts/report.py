"""Tables of what was reported of faults of one machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from benchmarks.accuracy.intervals import wilson
from benchmarks.hosts.faults import KINDS
from benchmarks.hosts.job import Episode, Job

LEAST_RATIO = 1.05
"""Episodes that made steps no longer than this are shown, and count as the others do."""


def report(jobs: Sequence[Job]) -> str:
    """All tables, as Markdown."""
    episodes = [episode for job in jobs for episode in job.episodes]
    groups: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        groups[f"{episode.fault} {episode.dose:g}"].append(episode)
    lines = [
        "| fault | episodes | step time | who right | who and cause right | others named |",
        "|---|---|---|---|---|---|",
    ]
    order = [f"{name} {dose:g}" for name, kind in KINDS.items() for dose in kind.doses]
    lines += [_row(name, groups[name]) for name in order if name in groups]
    if episodes:
        lines.append(_row("**all**", episodes))
    healthy = [job for job in jobs if not job.episodes]
    lines += [
        "",
        "| without a fault | jobs | minutes | findings that name somebody | that name nobody |",
        "|---|---|---|---|---|",
        _healthy_row("healthy jobs", healthy),
        _healthy_row("between faults", [job for job in jobs if job.episodes]),
    ]
    wrong = [(job, text) for job in jobs for text in job.false]
    lines += ["", *(f"- {job.name}: {text}" for job, text in wrong)]
    missed = [(job, episode) for job in jobs for episode in job.episodes if not episode.cause]
    lines += [
        f"- {job.name}: {e.fault} {e.dose:g} on {e.host}, {e.step_ratio:.2f}x: "
        f"{'; '.join(e.found) or 'nothing was reported'}"
        for job, e in missed
    ]
    return "\n".join(lines).rstrip() + "\n"


def _row(name: str, episodes: Sequence[Episode]) -> str:
    ratios = [episode.step_ratio for episode in episodes]
    cells = [
        name,
        str(len(episodes)),
        f"{min(ratios):.2f} to {max(ratios):.2f}x",
        _share(sum(episode.who for episode in episodes), len(episodes)),
        _share(sum(episode.cause for episode in episodes), len(episodes)),
        str(sum(len(episode.wrong) for episode in episodes)),
    ]
    return f"| {' | '.join(cells)} |"


def _share(hits: int, num: int) -> str:
    low, high = wilson(hits, num)
    return f"{hits} of {num} ({100 * low:.0f}-{100 * high:.0f} %)"


def _healthy_row(name: str, jobs: Sequence[Job]) -> str:
    minutes = sum(job.healthy_s for job in jobs) / 60
    false, level = (sum(len(getattr(job, what)) for job in jobs) for what in ("false", "job_level"))
    return f"| {name} | {len(jobs)} | {minutes:.1f} | {false} | {level} |"
