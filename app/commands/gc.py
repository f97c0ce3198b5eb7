"""Remove old steps and old runs, by age and by size; without --delete it only says what would go.

Of a run whose newest row is too old the folder goes, of others the steps that are. What findings
and pinned links (`rankscope pin`) point at stays. Runs may be written and served meanwhile.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app import interrupts
from app.analysis.retention.carried_out import carry_out, work_off
from app.analysis.retention.planned import Aged, Plan, aged, horizon_ns, planned
from app.commands.retention_option import add_keep_argument, keep_of
from ingest.errors import UserError, printable
from ingest.index import compaction
from ingest.index.deletion import delete_leftovers
from ingest.index.indexer import Busy
from ingest.index.retention import Keep
from ingest.run import RunStore

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope gc`."""
    parser.add_argument("runs", type=Path, metavar="RUNS", help="a folder of runs, or one run")
    what = "what to keep: of an age (30d), of a size of all runs together (2TB), or 30d,2TB"
    parser.add_argument("--keep", required=True, metavar="AGE,SIZE", help=what)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="only say what would go (default)")
    how.add_argument("--delete", action="store_true", help="remove it")
    what = "also remove what findings point at; pinned links stay"
    parser.add_argument("--with-findings", action="store_true", help=what)
    parser.add_argument("--json", action="store_true", help="print one JSON object, for machines")
    add_keep_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print a sentence for each thing that goes or stays; 0. Raises UserError."""
    given = arguments.runs if arguments.runs.is_symlink() else arguments.runs.resolve()
    store, content = RunStore(given), keep_of(arguments)
    try:
        keep = Keep.parse(arguments.keep, "--keep")
    except ValueError as error:
        raise UserError(str(error)) from error
    found, problems = _all_aged(store.folders())
    before_ns = horizon_ns(keep, found)
    plans, more = _all_planned(found, before_ns, arguments.with_findings)
    waits: dict[str, str] = {}
    if arguments.delete:
        more += _without_leftovers(store.folder)
        waits = _delete(plans, content, arguments.with_findings)
    lines = [*problems, *more]
    if arguments.json:
        print(json.dumps(_as_json(plans, lines, waits, before_ns, arguments.delete)))
    else:
        text = [*_lines(plans, waits, before_ns, arguments.delete), *lines]
        print("\n".join(map(printable, [*text, _total(plans, waits, arguments.delete)])))
    return 0


def _all_aged(folders: Sequence[Path]) -> tuple[list[Aged], list[str]]:
    """How old each run is, and a sentence for each that cannot be opened."""
    found, problems = [], []
    for folder in folders:
        interrupts.check()
        try:
            found.append(aged(folder))
        except UserError as error:
            problems.append(f"{folder.name} is left alone: {error}")
    return found, problems


def _all_planned(
    found: Sequence[Aged], before_ns: float, with_findings: bool
) -> tuple[list[Plan], list[str]]:
    plans, problems = [], []
    for one in found:
        interrupts.check()
        try:
            plans.append(planned(one, before_ns, with_findings))
        except UserError as error:
            problems.append(f"{one.folder.name} is left alone: {error}")
    return plans, problems


def _without_leftovers(runs: Path) -> list[str]:
    """Delete what interrupted deletions left; a sentence if that cannot be."""
    try:
        delete_leftovers(runs)
    except OSError as error:
        return [f"{error.filename} cannot be deleted ({error.strerror}); check its permissions"]
    return []


def _delete(plans: Sequence[Plan], content: Keep, with_findings: bool) -> dict[str, str]:
    """Carry the plans out; why things of a run are not gone yet, by its name."""
    waits, trimmed = {}, []
    for plan in plans:
        interrupts.check()
        if plan.left_alone:
            continue
        try:
            wait = carry_out(plan, content, with_findings)
        except UserError as error:
            wait = str(error)
        if wait:
            waits[plan.folder.name] = wait
        elif plan.removed:
            trimmed.append(plan.folder)
    if trimmed:
        threading.Event().wait(compaction.GRACE_S)  # readers of older snapshots read the files
        for folder in trimmed:
            try:
                work_off(folder, content)
            except Busy:  # whoever has it deletes them
                waits[folder.name] = "the process that indexes it deletes the files in a minute"
            except UserError as error:
                waits[folder.name] = str(error)
    return waits


def _lines(
    plans: Sequence[Plan], waits: dict[str, str], before_ns: float, is_done: bool
) -> Iterator[str]:
    goes = "is removed" if is_done else "would go"
    go = "are removed" if is_done else "would go"
    before = _when(before_ns)
    for plan in plans:
        name, size = plan.folder.name, _size(plan.num_bytes)
        wait = f": {waits[name]}" if name in waits else ""
        if plan.left_alone:
            yield f"{name} is left alone: {plan.left_alone}"
        elif plan.is_whole and wait:
            yield f"{name} is left alone{wait}"
        elif plan.is_whole:
            yield f"{name} {goes}: its newest row is from before {before} ({size})"
        elif not plan.removed:
            yield f"{name} stays: it has no step from before {before} that could go"
        for steps in plan.removed:
            verb = go if steps.last > steps.first else goes
            verb = f"{verb.split()[0]} not removed yet" if wait else verb
            yield f"{name}: {steps} {verb}, from before {before}{wait}"
        for kept in (*plan.found, *plan.pinned):
            verb = "stay" if kept.steps.last > kept.steps.first else "stays"
            yield f"{name}: {kept.steps} {verb}: {kept.why}"


def _total(plans: Sequence[Plan], waits: dict[str, str], is_done: bool) -> str:
    gone = [plan for plan in plans if plan.folder.name not in waits]
    whole = sum(plan.is_whole for plan in gone)
    parts = sum(bool(plan.removed) and not plan.is_whole for plan in gone)
    num_bytes = sum(plan.num_bytes for plan in gone)
    all_of_it = _size(num_bytes)
    left = _size(sum(plan.aged.num_bytes for plan in plans) - num_bytes)
    of_all = f" of {len(plans)} run{'' if len(plans) == 1 else 's'}"
    what = [f"{whole}{of_all}"] if whole else []
    if parts:
        what.append(f"steps of {parts}{' more' if whole else of_all}")
    runs = f"{' and '.join(what)}, about {all_of_it}" if what else f"nothing{of_all}"
    if is_done:
        return f"removed {runs}; about {left} are left"
    if not what:
        return f"--delete would remove {runs}; about {left} are left"
    return f"nothing is removed yet; --delete removes {runs}, and leaves about {left}"


def _as_json(
    plans: Sequence[Plan],
    problems: Sequence[str],
    waits: dict[str, str],
    before_ns: float,
    is_done: bool,
) -> dict[str, Any]:
    return {
        "before": _when(before_ns) if before_ns > 0 else None,
        "deleted": is_done,
        "runs": [
            {
                "run": plan.folder.name,
                "whole": plan.is_whole,
                "removed": [_steps(one) for one in plan.removed],
                "bytes": plan.num_bytes,
                "kept": [_steps(k.steps) | {"why": k.why} for k in (*plan.found, *plan.pinned)],
                "left_alone": plan.left_alone,
                "pending": waits.get(plan.folder.name, ""),
            }
            for plan in plans
        ],
        "problems": list(problems),
    }


def _steps(steps: Any) -> dict[str, Any]:
    return {"attempt": steps.attempt, "first_step": steps.first, "last_step": steps.last}


def _when(ns: float) -> str:
    if ns <= 0:
        return "the beginning"
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _size(num_bytes: int) -> str:
    """A size in words.

    >>> _size(12_345_678)
    '12.3 MB'
    """
    factor, unit = next((one for one in _UNITS if num_bytes >= one[0]), (1, "bytes"))
    return f"{num_bytes / factor:.3g} {unit}"
