"""Summarise a run, a trace file or a folder of traces."""

from __future__ import annotations

import argparse
import json

from app.commands.run_argument import add_run_arguments, open_run
from ingest.errors import printable
from ingest.summary import LAYOUT_WORDS, RunSummary, info

_STEPS_SHOWN = 8
_FILES_SHOWN = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope info`."""
    add_run_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the summary; trace files are imported to a temporary folder first."""
    with open_run(arguments.path) as opened:
        summary = info(opened)
    print(json.dumps(summary) if arguments.json else as_text(summary))
    return 0


def as_text(summary: RunSummary) -> str:
    """The summary for people."""
    world = summary["world_size"]
    layout = summary["layout"]
    clock = summary["clock"]
    error_ns = clock["max_err_ns"]
    error = "error unknown" if error_ns is None else f"error at most {error_ns / 1000:.1f} µs"
    size = "(size of the job unknown)" if world is None else f"of {world}"
    lines = [
        f"run       {summary['run']} ({summary['format']})",
        f"ranks     {summary['num_ranks']} {size}",
        f"layout    {_layout_text(layout, summary['layout_from'])}",
        f"attempts  {summary['attempts']}",
        f"steps     {_steps_text(summary['steps'])}",
        f"spans     {summary['num_spans']:,}",
        f"clock     {clock['kind']}, alignment {clock['method']}, {error}",
    ]
    lines += _from_text(summary["provenance"])
    lines += [f"guess     {text}" for text in summary["guesses"]]
    lines += [f"problem   {text}" for text in summary["problems"]]
    return "\n".join(map(printable, lines))


def _from_text(provenance: list[str]) -> list[str]:
    """The first files and the last line, which says when they were imported."""
    shown = [*provenance[:_FILES_SHOWN], *provenance[_FILES_SHOWN:][-1:]]
    num_more = len(provenance) - len(shown)
    if num_more:
        shown.insert(-1, f"and {num_more} more file{'s' * (num_more > 1)}")
    return [f"from      {text}" for text in shown]


def _layout_text(layout: dict[str, int] | None, known_from: str | None) -> str:
    if layout is None:
        return "unknown"
    sizes = " x ".join(f"{axis} {size}" for axis, size in layout.items())
    return f"{sizes} ({LAYOUT_WORDS[known_from or 'job']})"


def _steps_text(steps: list[int]) -> str:
    if len(steps) <= _STEPS_SHOWN:
        return ", ".join(map(str, steps)) or "none"
    return f"{len(steps)}, from {steps[0]} to {steps[-1]}"
