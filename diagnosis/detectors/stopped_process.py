"""stopped_process: the process of a rank is stopped by a signal or a tracer, for a while or again
and again.

The watchdog of each host looks at the state of every rank's process. A process that trains is never
in state T or t by itself: SIGSTOP, a debugger, a profiler that stops what it samples, or a
scheduler that suspends the job put it there. Where it waits for others meanwhile, its recorded
phases do not show it: the others' collectives just take longer.

Source: proc(5), the rule is ours. Known false positives: where looks are more than LEAST_S apart (a
host whose /proc is slow), a moment that one of them met. Blind spots: processes that are frozen
(cgroup freezer) or whose virtual machine stands still, which keep their state; stops between two
looks, two seconds apart. A process that is still stopped and that others wait for is `hung_rank`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from diagnosis.findings import Evidence, Finding, Place, Verdict
from diagnosis.statistics.evidence_links import question_params, timeline_view
from diagnosis.statistics.units import steps_text

NAME = "stopped_process"
KINDS = ("stopped_process",)
QUESTIONS = ("stopped_ranks", "steps")

LEAST_S = 4.0
"""Seen stopped for so long: a tool that takes one stack stops a process for less."""
MOST_APART_S = 60.0
"""Between two looks of one episode."""
LOOK_S = 2.0
"""From one look to the next; how long the last one counts."""
MOST_OF_JOB = 0.5
"""Of more ranks at the same time, somebody suspended the job."""
OVER_AFTER_STEPS = 3

Row = Mapping[str, Any]


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`; None where no process was seen stopped."""
    rows = tables["stopped_ranks"].to_pylist()
    steps = tables["steps"]
    if not rows or not steps.num_rows:
        return None
    newest, num_ranks = steps["step"].to_numpy().max(), steps["num_ranks"].to_numpy().max()
    episodes = [episode for episode in _episodes(rows) if _is_long(episode)]
    findings, set_aside = [], []
    for episode in episodes:
        meanwhile = {other[0]["rank"] for other in episodes if _meet(episode, other)}
        if len(meanwhile) > MOST_OF_JOB * num_ranks:
            span = steps_text(*_steps(episode))
            set_aside.append(
                f"{len(meanwhile)} ranks were stopped in {span}: the job was suspended."
            )
        else:
            is_over = _steps(episode)[1] + OVER_AFTER_STEPS < newest
            findings.append(_finding(episode, attempt, not is_over))
    checked = None if findings else "No rank alone was stopped for longer than a moment."
    return Verdict(NAME, tuple(findings), checked, set_aside=tuple(dict.fromkeys(set_aside)))


def _episodes(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Looks of one rank that are not far apart."""
    for _, of_rank in groupby(rows, key=lambda row: row["rank"]):
        episode: list[Row] = []
        for row in of_rank:
            if episode and row["second"] > _end_s(episode[-1]) + MOST_APART_S:
                yield episode
                episode = []
            episode.append(row)
        yield episode


def _end_s(row: Row) -> float:
    return float(row["second"] + (LOOK_S if row["held_s"] is None else row["held_s"]))


def _stopped_s(episode: Sequence[Row]) -> float:
    return float(sum(_end_s(row) - row["second"] for row in episode))


def _is_long(episode: Sequence[Row]) -> bool:
    return _stopped_s(episode) >= LEAST_S


def _meet(one: Sequence[Row], other: Sequence[Row]) -> bool:
    first, last = max(one[0]["second"], other[0]["second"]), min(map(_end_s, (one[-1], other[-1])))
    return bool(first <= last)


def _steps(episode: Sequence[Row]) -> tuple[int, int]:
    return episode[0]["step"], max(row["step"] for row in episode)


def _finding(episode: Sequence[Row], attempt: int, ongoing: bool) -> Finding:
    rank, host = episode[0]["rank"], episode[0]["host"]
    where = f" on {host}" if host is not None else ""
    steps, stopped_s = _steps(episode), _stopped_s(episode)
    over_s = _end_s(episode[-1]) - episode[0]["second"]
    often = "again and again" if len(episode) > 1 else f"for {stopped_s:.0f} s"
    of_time = f"for about {stopped_s:.0f} of {over_s:.0f} s" if len(episode) > 1 else often
    looks = f"{len(episode)} times" if len(episode) > 1 else "once"
    params = question_params(*steps, attempt)
    evidence = Evidence(
        f"The process of rank {rank} was seen stopped {looks}, {of_time}.",
        float(len(episode)), "looks", "stopped_ranks", params,
        timeline_view(attempt, rank, (rank,), steps),
    )  # fmt: skip
    return Finding(
        kind=NAME,
        attempt=attempt,
        severity="urgent" if ongoing else "past",
        confidence="high",
        title=f"Rank {rank} {'is' if ongoing else 'was'} stopped {often}",
        text=f"The process of rank {rank}{where} has been stopped {of_time} since step "
        f"{steps[0]}; the others wait for it."
        if ongoing
        else f"The process of rank {rank}{where} was stopped {of_time} from step {steps[0]} to "
        f"step {steps[1]}; the others waited for it.",
        culprits=(Place(rank, host),),
        first_step=steps[0],
        last_step=steps[1],
        ongoing=ongoing,
        evidence=(evidence,),
        alternatives=("A scheduler that suspends the job's processes one after the other.",),
        cause="The process is stopped by a signal (SIGSTOP) or by a tracer, such as a debugger.",
        next_step=f"On {host or 'its host'}: `grep TracerPid /proc/PID/status` shows a debugger or "
        "profiler that is attached; without one, look for what sends SIGSTOP (a scheduler, "
        "somebody's script).",
    )
