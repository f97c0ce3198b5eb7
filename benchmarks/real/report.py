"""Tables of what a results file holds. Pure: text from rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.real.kinds import DOSES, KINDS, LAYOUTS, RECORDING
from benchmarks.real.plan import Episode
from benchmarks.real.records import Results, Row, episode_of
from benchmarks.real.score import is_true, names, text_of

MOST_STEPS, MOST_S = 4, 5.0
"""In time: within 4 steps + 5 s from the mark."""

HEADS = ("", "right", "wrong name", "in time", "p50 s", "p95 s", "p50 steps", "p95 steps")


def wilson(hits: int, num: int) -> tuple[float, float]:
    """Interval of 95 % of a share (Wilson, 1927)."""
    z, p = 1.96, hits / num
    middle = (p + z * z / 2 / num) / (1 + z * z / num)
    half = z / (1 + z * z / num) * math.sqrt(p * (1 - p) / num + z * z / 4 / num**2)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def in_time(episode: Episode) -> bool:
    """Whether the alert came within MOST_STEPS + MOST_S."""
    return episode.delay_s is not None and episode.delay_s <= MOST_STEPS * episode.step_s + MOST_S


def lines_of(results: Results) -> Iterator[str]:
    """The whole report."""
    episodes = [episode_of(row) for row in results.episodes]
    every = list(zip(results.episodes, episodes, strict=True))
    reached = [(row, episode) for row, episode in every if is_reached(episode)]
    num_below = len(episodes) - len(reached)
    yield (
        f"{len(episodes)} episodes in {results.num_crossings} jobs; {num_below} stayed below "
        f"{min(DOSES.values())}x and count in the first table only."
    )
    yield ""
    yield from _table("planned dose", every, lambda _row, episode: episode.dose)
    for title, group_of in _GROUPS:
        yield ""
        yield from _table(title, reached, group_of)
    yield ""
    yield from _healthy(results.jobs)
    yield ""
    yield "Not right, or somebody else was named:"
    yield from (_line(row, episode) for row, episode in every if _odd(episode))


def is_reached(episode: Episode) -> bool:
    """Whether its steps really were longer, by the least dose."""
    return episode.reached in DOSES


Chosen = Sequence[tuple[Row, Episode]]
_GROUPS: tuple[tuple[str, Callable[[Row, Episode], str]], ...] = (
    ("reached dose", lambda _row, episode: episode.reached),
    ("fault", lambda _row, episode: episode.fault),
    ("fault, reached", lambda _row, episode: f"{episode.fault}, {episode.reached}"),
    ("job", lambda row, _episode: _where(row)),
)


def _where(row: Row) -> str:
    return f"{row['layout']}, {'neighbour' if row['neighbour'] else 'quiet'}"


def _table(title: str, chosen: Chosen, group_of: Callable[[Row, Episode], str]) -> Iterator[str]:
    order = [*DOSES, *KINDS, *(f"{kind}, {dose}" for kind in KINDS for dose in DOSES)]
    order += [_where({"layout": name, "neighbour": noisy}) for name in LAYOUTS for noisy in (0, 1)]
    groups: dict[str, list[Episode]] = {}
    for row, episode in chosen:
        groups.setdefault(group_of(row, episode), []).append(episode)
    if title.endswith("dose"):
        groups["all"] = [episode for _, episode in chosen]
        order.append("all")
    yield _row((title, *HEADS[1:]))
    yield _row(["---"] * len(HEADS))
    yield from (_row(_cells(name, groups[name])) for name in order if name in groups)


def _cells(name: str, episodes: Sequence[Episode]) -> list[str]:
    found = [e for e in episodes if e.delay_s is not None]
    low, high = wilson(len(found), len(episodes))
    times = [str(sum(map(in_time, episodes)))]
    for values in ([e.delay_s for e in found], [e.delay_steps for e in found]):
        p50, p95 = np.percentile(values, [50, 95]) if values else (math.nan, math.nan)
        times += [f"{p50:.1f}", f"{p95:.1f}"] if values else ["-", "-"]
    return [
        name,
        f"{len(found)} of {len(episodes)} ({100 * low:.0f}-{100 * high:.0f} %)",
        str(sum(bool(e.wrong) for e in episodes)),
        *times,
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _healthy(jobs: Sequence[Row]) -> Iterator[str]:
    """False names, and job-level findings, of healthy jobs and of stretches between faults."""
    heads = ("without a fault", "jobs", "hours", "rank-steps", "false names", "per hour (95 %)")
    yield _row((*heads, "job-level, true", "untrue", "of the recording"))
    yield _row(["---"] * (len(heads) + 3))
    for title, chosen in (
        ("healthy jobs", [job for job in jobs if job["number"] is None]),
        ("between faults", [job for job in jobs if job["number"] is not None]),
    ):
        if chosen:
            yield _row(_healthy_cells(title, chosen))
    for job in jobs:
        for part in (part for part in job["false"] if part["kind"] not in RECORDING):
            longer = "" if part["longer"] is None else f", these steps {part['longer']:.2f}x"
            steps = f"steps {part['steps'][0]} to {part['steps'][1]} of {job['num_steps']}"
            yield f"- {job['id']} ({_where(job)}): {text_of(part)}, {steps}{longer}"


def _healthy_cells(title: str, jobs: Sequence[Row]) -> list[str]:
    every_part: list[dict[str, Any]] = [part for job in jobs for part in job["false"]]
    parts = [part for part in every_part if part["kind"] not in RECORDING]
    false = [part for part in parts if names(part)]
    true = [part for part in parts if not names(part) and is_true(part)]
    hours = sum(job["healthy_hours"] for job in jobs)
    steps = sum(LAYOUTS[job["layout"]].num_ranks * job["num_steps"] for job in jobs)
    low, high = (limit / hours for limit in poisson(len(false)))
    return [
        title,
        str(len(jobs)),
        f"{hours:.2f}",
        f"{steps:,}",
        str(len(false)),
        f"{len(false) / hours:.1f} ({low:.1f}-{high:.1f})",
        str(len(true)),
        str(len(parts) - len(false) - len(true)),
        str(len(every_part) - len(parts)),
    ]


def poisson(num: int) -> tuple[float, float]:
    """Interval of 95 % of an expected number, from one count (Byar's approximation)."""
    low = num * (1 - 1 / (9 * num) - 1.96 / (3 * math.sqrt(num))) ** 3 if num else 0.0
    more = num + 1
    return low, more * (1 - 1 / (9 * more) + 1.96 / (3 * math.sqrt(more))) ** 3


def _odd(episode: Episode) -> bool:
    return bool(episode.alert_ns is None or episode.wrong)


def _line(row: Row, episode: Episode) -> str:
    """One episode that is not right, and what was said instead."""
    said = [
        "not found" if episode.delay_s is None else f"found after {episode.delay_s:.1f} s",
        *([f"wrong: {', '.join(episode.wrong)}"] if episode.wrong else []),
        *([f"misdated: {', '.join(episode.misdated)}"] if episode.misdated else []),
        *([f"other kind: {', '.join(episode.other_kind)}"] if episode.other_kind else []),
        *([f"job-level: {', '.join(episode.job_level)}"] if episode.job_level else []),
    ]
    who = f"rank {', '.join(map(str, episode.ranks))}" if episode.ranks else "nobody"
    where = f"steps {episode.first} to {episode.last} of {row['job']} ({_where(row)})"
    return (
        f"- {episode.fault} ({who}), planned {episode.dose}, {episode.step_ratio:.2f}x, {where}: "
        f"{'; '.join(said)}"
    )
