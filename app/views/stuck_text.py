"""Where a stuck job stands, in about ten lines for a terminal: what the page Stuck shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from app.views.stuck import Stuck

_MOST_TREE, _MOST_REASONS, _MOST_STACKS, _MOST_COMMANDS = 4, 2, 3, 2


def stuck_lines(stuck: Stuck) -> list[str]:
    """Lines with a name in front of each; none where nothing is stuck."""
    if stuck.state != "stuck":
        return []
    lines = [f"STUCK  {stuck.status or 'Ranks wait.'}"]
    if stuck.is_over and stuck.at_ns is not None:
        at = datetime.fromtimestamp(stuck.at_ns / 1e9).strftime("%Y-%m-%d %H:%M:%S")
        lines.append(f"  over        The job has ended; this is what was seen last, at {at}.")
    tree = [line for branch in stuck.tree for line in _branch_lines(branch, "")]
    tree += [
        f"rank {link['rank']} waits for rank {link['waits_for']} in {link['op']}"
        for circle in stuck.circles
        for link in circle
    ]
    lines += [f"  waits       {line}" for line in tree[:_MOST_TREE]]
    lines += [f"  why         {reason}" for reason in stuck.reasons[:_MOST_REASONS]]
    for stack in stuck.stacks[:_MOST_STACKS]:
        where = f" in {stack['where']}" if stack["where"] else ""
        lines.append(f"  doing       {stack['ranks']}: {stack['activity']}{where}")
    for line in stuck.lines[:1]:
        lines.append(f"  first line  {line['who']}: {line['text'].rstrip().splitlines()[-1]}")
    for command in stuck.commands[:_MOST_COMMANDS]:
        lines.append(f"  try         {command['command']}  # {command['what']}")
    return [*lines, ""]


def _branch_lines(branch: Mapping[str, Any], indent: str) -> Iterable[str]:
    below = branch["branches"]
    where = f" in {branch['op']}" if branch["op"] else ""
    verb = "are" if branch["rank"].startswith("ranks") else "is"
    yield f"{indent}{branch['rank']}{where}{f' {verb} waited for by' if below else ''}"
    for other in below:
        yield from _branch_lines(other, f"{indent}  ")
