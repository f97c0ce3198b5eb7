"""Show where the time of the devices goes, from their peak down to the measured MFU.

Prints what share of the devices' time (ranks x step time) each part of a step takes, and since when
more of it is lost: the step, the parts that grew, and by how many points. docs/mfu.md explains the
parts. With --against, compares two windows of steps, or two runs, instead. With --operations, shows
the single operations that a profiler recorded against what the devices could do at most.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from dataclasses import asdict
from pathlib import Path

from app.commands.given_path import given_text
from app.commands.operation_lines import operation_lines
from app.commands.run_argument import add_run_arguments, open_run
from app.views.efficiency import operations
from app.views.efficiency.mfu import (
    Asked,
    Change,
    Efficiency,
    as_json,
    change_between,
    change_from,
    decline_of,
    efficiency_of,
    without_warm_up,
)
from app.views.ranks.metric_matrix import Steps
from diagnosis.statistics.units import in_ms, named_ranks, steps_text
from ingest.errors import UserError, printable

EXIT_NOT_ENOUGH = 4
_WINDOW = re.compile(r"(\d{1,15}):(\d{1,15})")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope mfu`."""
    add_run_arguments(parser, "RUN")
    add = parser.add_argument
    add("--window", type=_steps, metavar="A:B", help="first and last step (default: all)")
    what = "steps of the same run, or another run, to compare with"
    add("--against", type=_other, metavar="C:D|RUN2", help=what)
    what = "peak of one device, 1e12 FLOP/s (default: by the data sheet of the devices)"
    add("--peak-tflops", type=_above_zero, metavar="X", help=what)
    what = "single operations against the roofline of the devices, and kernels slow on one rank"
    add("--operations", action="store_true", help=what)
    what = "bandwidth of the memory of one device, 1e9 B/s, with --operations (default: likewise)"
    add("--bandwidth", type=_above_zero, metavar="X", help=what)


def run(arguments: argparse.Namespace) -> int:
    """Print what was asked for; 4 where nothing of it was recorded. Raises UserError."""
    if arguments.operations:
        return _operations(arguments)
    if arguments.bandwidth is not None:
        raise UserError("--bandwidth is for --operations; add it, or leave out --bandwidth")
    with open_run(arguments.path) as opened:
        asked = Asked(opened, opened.newest_attempt, arguments.peak_tflops)
        steps = arguments.window or _all_steps(asked)
        found = None if steps is None else efficiency_of(asked, steps)
        if found is None or steps is None:
            return _refuse(arguments, steps)
        change = _change(asked, arguments, steps)
    if arguments.json:
        print(json.dumps({"waterfall": as_json(found), "change": asdict(change)}))
    else:
        print("\n".join(map(printable, [*waterfall_lines(found), "", change.sentence])))
    return 0


def _operations(arguments: argparse.Namespace) -> int:
    if arguments.against is not None:
        raise UserError("--operations shows one run; leave out --against")
    with open_run(arguments.path) as opened:
        asked = operations.Asked(
            opened, opened.newest_attempt, arguments.peak_tflops, arguments.bandwidth
        )
        found = operations.roofline_of(asked, arguments.window)
    if arguments.json:
        print(json.dumps(operations.as_json(found)))
    elif isinstance(found, str):
        print(f"rankscope mfu: {found}", file=sys.stderr)
    else:
        print("\n".join(map(printable, operation_lines(found))))
    return EXIT_NOT_ENOUGH if isinstance(found, str) else 0


def _refuse(arguments: argparse.Namespace, steps: Steps | None) -> int:
    if arguments.window is not None and steps is not None:
        raise UserError(
            f"{arguments.path} has no finished step among {steps_text(*steps)}; "
            "`rankscope info` says which it has"
        )
    reason = "no step is finished; there is nothing to divide"
    if arguments.json:
        print(json.dumps({"waterfall": None, "change": None, "reason": reason}))
    else:
        print(f"rankscope mfu: {reason}", file=sys.stderr)
    return EXIT_NOT_ENOUGH


def _all_steps(asked: Asked) -> Steps | None:
    step_S = without_warm_up(asked, asked.times()).step_S
    return (int(step_S[0]), int(step_S[-1])) if step_S.size else None


def _change(asked: Asked, arguments: argparse.Namespace, steps: Steps) -> Change:
    if arguments.against is None:
        return decline_of(asked)
    if not isinstance(arguments.against, str):
        return change_between(asked, arguments.against, steps)
    with open_run(Path(arguments.against)) as other:
        was = Asked(other, other.newest_attempt, arguments.peak_tflops)
        return change_from(was, asked, steps, arguments.against)


def waterfall_lines(found: Efficiency) -> list[str]:
    """The waterfall for people."""
    fall = found.waterfall
    peak = "" if fall.peak_tflops is None else f", peak {fall.peak_tflops:g} TFLOP/s per device"
    where = steps_text(fall.first_step, fall.last_step)
    num_ranks = f"{fall.num_ranks:,} rank{'' if fall.num_ranks == 1 else 's'}"
    lines = [f"{where}: {in_ms(fall.step_ms)} per step, {num_ranks}{peak}"]
    top = "peak of the devices" if fall.mfu is not None else "time of the devices"
    lines.append(f"  {top:26} {100:6.1f} %")
    for bar in fall.bars:
        ranks = named_ranks(rank.rank for rank in found.ranks[bar.name])
        waited_for = "for " if bar.name == "waiting" else ""
        most = f"  most in step {bar.worst_step}, {waited_for}{ranks}" if ranks else ""
        named = ", ".join(name for name, _ in found.operations.get(bar.name, ()))
        most += f" ({named})" if named else ""
        lines.append(f"- {bar.title:26} {100 * bar.share:6.1f} % {in_ms(bar.ms):>10}{most}")
    if fall.mfu is not None:
        lines.append(f"= {'MFU':26} {100 * fall.mfu:6.1f} %")
    return lines + [f"note: {note}" for note in (*fall.notes, fall.why_no_mfu) if note]


def _steps(text: str) -> Steps:
    match = _WINDOW.fullmatch(text)
    if match is None or int(match[2]) < int(match[1]):
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is no window; give first and last step, such as 100:199"
        )
    return int(match[1]), int(match[2])


def _other(text: str) -> Steps | str:
    """Steps of the same run, or the path of another run."""
    return _steps(text) if _WINDOW.fullmatch(text) else given_text(text)


def _above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number above 0, such as 989")
    return value
