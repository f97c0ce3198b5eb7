"""Findings about waiting for data, with what the loader's workers did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from diagnosis.findings import Evidence, Finding
from diagnosis.loading.workers import QUESTION, why_slow


def explained(finding: Finding, tables: Mapping[str, pa.Table]) -> Finding:
    """A finding of kind data_loader, with the worker or source that is slow and what it does;
    others, and where no worker was seen, as they are.
    """
    if finding.kind != "data_loader":
        return finding
    rank = finding.culprits[0].rank if finding.culprits else None
    why = why_slow(tables, rank)
    if why is None:
        return finding
    of_rank = (("rank", rank),) if rank is not None else ()
    params = (*of_rank, ("attempt", finding.attempt))
    seen = Evidence(why.sentence, why.sample_ms, "ms", QUESTION, params)
    return replace(
        finding,
        cause=f"{finding.title}: {why.sentence}",
        evidence=(*finding.evidence, seen),
        alternatives=finding.alternatives[1:],  # what they did distinguishes them
        next_step=why.next_step,
    )
