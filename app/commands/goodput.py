"""Where a run's wall time went over its attempts, and what was slow before the first step.

docs/goodput.md explains the parts and the numbers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict

from app.commands.run_argument import add_run_arguments, open_run
from app.views.efficiency.goodput import Goodput, goodput_of, in_words
from app.views.efficiency.startup import Startup, sentences, startup_of
from diagnosis.statistics.units import named_ranks, steps_text
from ingest.errors import UserError, printable

_MOST_MISSING = 16
_LEAST_SHOWN = 0.0005
"""Share of the wall time that is not displayed as 0.0 %."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope goodput`."""
    add_run_arguments(parser, "RUN")
    what = "attempt whose start-up is shown (default: the newest)"
    parser.add_argument("--attempt", type=int, metavar="N", help=what)


def run(arguments: argparse.Namespace) -> int:
    """Print the ledger and the start-up. Raises UserError where the run has neither."""
    with open_run(arguments.path) as opened:
        wanted = arguments.attempt
        if wanted is not None and wanted not in opened.attempts:
            known = ", ".join(map(str, opened.attempts)) or "none"
            raise UserError(f"{arguments.path} has no attempt {wanted}; it has {known}")
        goodput, startup = goodput_of(opened), startup_of(opened, wanted)
    if isinstance(goodput, str):
        raise UserError(
            f"{arguments.path} has no goodput: {goodput[0].lower()}{goodput[1:].removesuffix('.')}"
        )
    if goodput is None:
        raise UserError(
            f"{arguments.path} has no finished step and no rank; there is no time to divide"
        )
    if arguments.json:
        print(json.dumps({"goodput": asdict(goodput), "startup": asdict(startup)}))
    else:
        print("\n".join(map(printable, [*_ledger(goodput), "", *_startup(startup)])))
    return 0


def _ledger(goodput: Goodput) -> Iterator[str]:
    share = goodput.effective_share
    if share is None:
        yield "when the attempts started is unknown: shares of the wall time cannot be given"
    else:
        number = goodput.num_interruptions
        yield (
            f"effective   {100 * share:.1f} % of {in_words(goodput.wall_s or 0.0)} "
            f"(ETTR), {number} interruption{'' if number == 1 else 's'}"
        )
    for part in goodput.parts:
        seconds = goodput.totals[part]
        of_all = f"{100 * seconds / goodput.wall_s:6.1f} %" if goodput.wall_s else ""
        yield f"  {goodput.words[part]:20}{in_words(seconds):>10} {of_all}"
    in_none = sum(row["unaccounted_s"] for row in goodput.attempts)
    if goodput.wall_s and in_none >= _LEAST_SHOWN * goodput.wall_s:
        yield f"  {'in no part':20}{in_words(in_none):>10} {100 * in_none / goodput.wall_s:6.1f} %"
    for row in goodput.attempts:
        steps = steps_text(row["first_step"], row["last_step"]) if row["num_steps"] else "no step"
        parts = ", ".join(
            f"{goodput.words[part]} {in_words(seconds)}"
            for part, seconds in row["parts"].items()
            if seconds > 0
        )
        yield f"attempt {row['attempt']:<4}{row['ended']}, {steps}: {parts}"
    for sentence in goodput.says:
        yield f"note        {sentence}"


def _ranks(number: int) -> str:
    return "1 rank" if number == 1 else f"{number:,} ranks"


def _startup(startup: Startup) -> Iterator[str]:
    if not startup.num_ranks:
        yield "start-up    not recorded"
        return
    over = "" if startup.is_over else " so far"
    recorded = f", {100 * startup.recorded:.1f} % of it recorded" if startup.recorded else ""
    yield (
        f"start-up    {in_words(startup.seconds)}{over} on {_ranks(startup.num_ranks)} "
        f"(attempt {startup.attempt}){recorded}"
    )
    for row in startup.spread:
        yield (
            f"  {row['part']:20}{in_words(row['usual']):>10} (at most {in_words(row['high'])}, "
            f"rank {row['rank']})"
        )
    for row in startup.ranks:
        if row["now"]:
            now = row["now"]
            what = f"{startup.doing[now['phase']]} ({now['what']})"
            yield f"now         rank {row['rank']}: {what} for {in_words(now['seconds'])}"
    if startup.missing:
        left = len(startup.missing) - _MOST_MISSING
        more = f" and {left:,} more" if left > 0 else ""
        yield f"no sign yet of {named_ranks(startup.missing[:_MOST_MISSING])}{more}"
    for call in startup.calls:
        if call["action"] == "read" and call["step"] < 0:
            rate = f", {call['mb_per_s']:,.1f} MB/s" if call["mb_per_s"] else ""
            yield (
                f"read        {call['name']} on {_ranks(call['num_ranks'])}, at most "
                f"{in_words(call['longest_s'])} (rank {call['slowest_rank']}{rate})"
            )
    for sentence in sentences(startup):
        yield f"slow        {sentence}"
