"""A fleet in words, for the command line; the page uses the same words for hosts and causes."""

from __future__ import annotations

from app.analysis.fleet.collected import Collected
from diagnosis.cost_text import hours_text
from diagnosis.fleet.fleet import Fleet
from diagnosis.fleet.hosts import FEWEST_RUNS, SlowHost, SlowHosts
from diagnosis.fleet.over_time import OverTime
from diagnosis.fleet.summary import OUTSIDE
from diagnosis.fleet.totals import STRAGGLING_S, Bin, Cause, ModelRow, Slowdowns
from diagnosis.kind_titles import KIND_TITLES
from diagnosis.statistics.units import named_ranks

_BAR = 30
_SHOWN = 12
_REASONS_SHOWN = 3


def as_lines(made: Fleet, found: Collected, worst: list[tuple[str, float]]) -> list[str]:
    """All of it, section by section."""
    sections = [
        _head(made, found),
        _slowdowns(made.slowdowns),
        _causes(made),
        _over_time(made.over_time),
        ["", *host_lines(made.hosts)],
        _models(made.models),
        _worst(worst, found),
        [f"not read   {name}: {text}" for name, text in sorted(found.problems.items())],
    ]
    return [line for section in sections for line in section]


def _head(made: Fleet, found: Collected) -> list[str]:
    lines = [
        f"runs       {made.num_runs:,}, {made.num_judged:,} of them judged; "
        f"{hours_text(made.rank_hours)}"
    ]
    if made.num_without_hours:
        lines.append(f"unknown    wall time of {_runs(made.num_without_hours)}, in no sum of hours")
    if found.elsewhere:
        lines.append(
            f"stored     summaries of {_runs(len(found.elsewhere))} are in the user's cache: their "
            "folders cannot be written"
        )
    return lines


def _slowdowns(given: Slowdowns) -> list[str]:
    lines = [""]
    if given.median is not None and given.p90 is not None:
        share = given.num_straggling / given.num_runs
        lines.append(
            f"S          median {given.median:.3f}, 90th percentile {given.p90:.3f}; at least "
            f"{STRAGGLING_S} in {given.num_straggling} of {_runs(given.num_runs)} ({share:.0%})"
        )
        if given.lost_share is not None:
            lines.append(f"           {given.lost_share:.1%} of their rank-hours are lost so")
        most = max(one.num_runs for one in given.bins)
        for one in given.bins:
            bar = "#" * round(_BAR * one.num_runs / most)
            lines.append(f"           {bin_text(one):>12} {one.num_runs:6,}  {bar}".rstrip())
    else:
        lines.append("S          not known of any run")
    for reason, number in list(given.unknown.items())[:_REASONS_SHOWN]:
        lines.append(f"  unknown  in {_runs(number)}: {reason.split('. ')[0]}")
    return lines


def bin_text(one: Bin) -> str:
    """Bounds of a bin of S."""
    if one.low is None:
        return f"below {one.high:g}"
    return f"{one.low:g} or more" if one.high is None else f"{one.low:g} to {one.high:g}"


def _causes(made: Fleet) -> list[str]:
    if made.lost_share is None:
        return ["", "lost       not known: no run has its wall time"]
    lines = [
        "",
        f"lost       {made.lost_share:.1%} of all rank-hours to known causes",
        *(f"           {_cause_line(one)}" for one in made.causes[:_SHOWN]),
    ]
    left = len(made.causes) - _SHOWN
    word = "cause" if left == 1 else "causes"
    return [*lines, f"           and {left} {word} with less"] if left > 0 else lines


def _cause_line(one: Cause) -> str:
    lost = f"{one.share:7.2%}  {hours_text(one.rank_hours)}"
    return f"{lost} in {_runs(one.num_runs)}: {cause_text(one.cause)}"


def cause_text(cause: str) -> str:
    """What the kind of a finding is called, and time outside steps in words."""
    return OUTSIDE.get(cause) or KIND_TITLES.get(cause, cause)


def _over_time(given: OverTime) -> list[str]:
    periods = [one for one in given.periods if one.num_runs]
    if len(periods) < 2:
        return []
    lines = ["", f"over time  by {given.unit} in which the runs began (UTC)"]
    for one in periods:
        lost = sum(one.lost.values())
        if not one.rank_hours:
            lines.append(f"           {one.first}  {_runs(one.num_runs)}, wall time unknown")
            continue
        share = f"{lost / one.rank_hours:.1%}"
        most = sorted(one.lost.items(), key=lambda item: -item[1])[:3]
        named = ", ".join(
            f"{cause_text(cause)} {hours / one.rank_hours:.1%}" for cause, hours in most
        )
        lines.append(
            f"           {one.first}  {_runs(one.num_runs)}, {share} lost  {named}".rstrip()
        )
    if given.num_without_time:
        lines.append(f"           {_runs(given.num_without_time)} without a known start")
    return lines


def host_lines(given: SlowHosts) -> list[str]:
    """The hosts named, else how many were compared and that none is."""
    lines = [f"slow host  {host_text(one)}" for one in given.named]
    if not given.num_judged:
        return [
            "hosts      not compared: no host is in as many as "
            f"{FEWEST_RUNS} runs with other hosts whose findings are known"
        ]
    none = "" if given.named else "none is slow more often than chance explains; "
    few = f"; {given.num_too_few:,} in fewer than {FEWEST_RUNS} runs" if given.num_too_few else ""
    return [
        *lines,
        f"hosts      {none}{given.num_judged:,} compared in {_runs(given.num_runs)}{few}",
    ]


def host_text(one: SlowHost) -> str:
    """Why a host is named, and that its place in the jobs may be the reason where that is so."""
    who = one.host
    if one.is_place_possible:
        place = f"that of {named_ranks(one.ranks)}" if one.ranks else "which is often the same"
        who = f"{one.host}, or its place in the jobs ({place})"
    return (
        f"{who}: slow in {one.num_slow} of {_runs(one.num_runs)}, where chance explains "
        f"{one.expected:.1f}; probability over all hosts {_probability(one.p_value)} "
        f"({', '.join(map(cause_text, one.kinds))})"
    )


def _probability(value: float) -> str:
    return f"{value:.1g}" if value >= 1e-12 else "below 1e-12"


def _models(rows: tuple[ModelRow, ...]) -> list[str]:
    known = [row for row in rows if row.mfu is not None]
    if not known:
        return [
            "",
            "MFU        not known of any run: it needs FLOPs of the model and a known device",
        ]
    lines = ["", "MFU        median by model (least to greatest)"]
    for row in known:
        spread = f"{row.mfu_low:.1%} to {row.mfu_high:.1%}"
        name = row.model or "model not recorded"
        lines.append(f"           {row.mfu:6.1%}  ({spread}) in {_runs(row.num_mfu)}: {name}")
    return lines


def _worst(worst: list[tuple[str, float]], found: Collected) -> list[str]:
    if not worst:
        return []
    lines = ["", "lost most"]
    for name, hours in worst:
        findings = found.summaries[name].findings
        title = f": {findings[0].title}" if findings else ""
        lines.append(f"           {hours_text(hours)}  {name}{title}")
    return lines


def _runs(number: int) -> str:
    return f"{number:,} run" if number == 1 else f"{number:,} runs"
