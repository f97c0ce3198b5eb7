"""What diagnosis and replay find in the run of scale.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.analysis.diagnosis import diagnose_run
from app.views.whatif.analysis import Refusal, whatif_or_refusal
from ingest.run import Run
from sample_traces.generate.job import RANKS_PER_HOST


def diagnosed(folder: Path, slow_hosts: list[int]) -> dict[str, Any]:
    """How many slow machines are named, how many before anything else, and how many others are."""
    with Run(folder) as run:
        findings = diagnose_run(run).findings
    named = [
        {place.rank // RANKS_PER_HOST for place in finding.culprits if place.rank is not None}
        for finding in findings
    ]
    slow = set(slow_hosts)
    first = 0
    while first < len(named) and named[first] and named[first] <= slow:
        first += 1
    all_named = set().union(*named)
    return {
        "slow": len(slow),
        "named": len(all_named & slow),
        "named_first": len(set().union(*named[:first]) & slow),
        "healthy_named": len(all_named - slow),
        "findings": len(findings),
    }


def replayed(folder: Path) -> dict[str, Any]:
    """Number of replayed steps, or why there is no replay."""
    with Run(folder) as run:
        answer = whatif_or_refusal(run)
    if isinstance(answer, Refusal):
        return {"reason": answer.reason}
    return {"steps": len(answer.prepared.ops.step_S)}
