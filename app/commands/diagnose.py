"""Report which ranks are slow and why: findings with their evidence, or that there are none.

What is stuck comes first. Exit code 0: no findings; 3: findings, or ranks that wait; 4: no detector
had enough data.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from app.analysis.diagnosis import against_baseline, diagnose_run
from app.analysis.imports import open_any
from app.analysis.not_identifiable import whole_answer
from app.analysis.run_diagnosis import RunDiagnosis, unjudged
from app.commands.run_argument import add_run_arguments, open_run
from app.views.stuck import stuck_of
from app.views.stuck_text import stuck_lines
from diagnosis.cost_text import cost_line
from diagnosis.findings import Diagnosis, Finding
from diagnosis.kind_titles import KIND_TITLES
from ingest.errors import UserError, printable
from ingest.run import Run

EXIT_FINDINGS = 3
EXIT_NOT_ENOUGH = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope diagnose`."""
    add_run_arguments(parser, "RUN")
    parser.add_argument(
        "--attempt", type=int, help="start of the job to diagnose, from 0 (default: the newest)"
    )
    good = "a good run of the same job, to detect what is equally slow on all ranks"
    parser.add_argument("--baseline", type=Path, metavar="RUN", help=good)


def run(arguments: argparse.Namespace) -> int:
    """Print the diagnosis; trace files are imported to a temporary folder first."""
    with open_run(arguments.path) as opened:
        if arguments.attempt is not None and arguments.attempt not in opened.attempts:
            known = ", ".join(map(str, opened.attempts)) or "none"
            raise UserError(f"there is no attempt {arguments.attempt}; there are: {known}")
        diagnosis = diagnose_run(opened, arguments.attempt)
        if arguments.baseline is not None:
            diagnosis = _compared(opened, arguments, diagnosis)
        whole = whole_answer(diagnosis, opened, arguments.attempt)
        stuck = stuck_of(opened, arguments.attempt)
    if arguments.json:
        print(json.dumps(whole))
    else:
        lines = stuck_lines(stuck) + as_lines(diagnosis)
        lines += [
            f"cannot show {KIND_TITLES[cause['kind']]}: {cause['why']} {cause['remedy']}"
            for cause in whole["not_identifiable"]
        ]
        print("\n".join(map(printable, lines)))
    return EXIT_FINDINGS if stuck.state == "stuck" else exit_code(diagnosis)


def _compared(run: Run, arguments: argparse.Namespace, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis, with the comparison with the baseline added."""
    attempt = run.newest_attempt if arguments.attempt is None else arguments.attempt
    with open_any(arguments.baseline) as good:
        verdict = against_baseline(run, attempt, good)
    return replace(diagnosis, verdicts=(*diagnosis.verdicts, verdict))


def exit_code(diagnosis: Diagnosis) -> int:
    """0 healthy, 3 findings, 4 no detector had enough data."""
    if diagnosis.findings:
        return EXIT_FINDINGS
    return 0 if diagnosis.judged else EXIT_NOT_ENOUGH


def as_lines(diagnosis: Diagnosis) -> list[str]:
    """The diagnosis as lines of text."""
    lines = [line for finding in diagnosis.findings for line in _finding_lines(finding)]
    # detectors that read the same may find the same
    lines += [f"in order    {sentence}" for sentence in dict.fromkeys(diagnosis.checked)]
    lines += [f"set aside   {sentence}" for sentence in diagnosis.set_aside]
    could_not, not_recorded = unjudged(diagnosis)
    lines += [f"not judged  {sentence}" for sentence in could_not]
    lines += [f"unrecorded  {sentence}" for sentence in not_recorded]
    if isinstance(diagnosis, RunDiagnosis) and diagnosis.unusual:
        lines.append(f"unusual     {diagnosis.unusual}")
    return lines


def _finding_lines(finding: Finding) -> list[str]:
    places = [
        f"{place}" + (f" on {place.host}" if place.host else "") for place in finding.culprits
    ]
    wholes = [f"pipeline stage {stage}" for stage in finding.stages] + list(finding.hosts)
    lines = [f"{finding.severity.upper()}  {finding.title}. {finding.text}"]
    if who := places or wholes:  # nobody, where it is of the job
        lines.append(f"  who         {', '.join(who)}")
    lines.append(f"  confidence  {finding.confidence}")
    if finding.cost is not None:
        lines.append(f"  cost        {cost_line(finding)}")
    lines += [f"  evidence    {evidence.sentence}" for evidence in finding.evidence]
    lines += [f"  or perhaps  {sentence}" for sentence in finding.alternatives]
    return [*lines, f"  next step   {finding.next_step}", f"  id          {finding.id}", ""]
