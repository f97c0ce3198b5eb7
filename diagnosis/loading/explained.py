"""Findings about waiting for data, with what the loader's workers did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from diagnosis.findings import Evidence, Finding
from diagnosis.loading.workers import QUESTION, fetch_ms, why_slow

OF_WAIT = 0.5
"""Fetches that take less than this part of a wait do not explain it."""

_CORES = (
    "Look at what else uses the cores of the host (more workers than cores, other processes), and "
    "at how large the batches are that workers hand over."
)


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
    took_ms = fetch_ms(tables, rank)
    if took_ms is not None and finding.cost and took_ms < OF_WAIT * finding.cost.ms_per_step:
        whose = "the" if rank is None else "its"
        text = f"Fetching a batch takes {whose} workers {took_ms:.1f} ms, much less than the wait: "
        text += "they wait for a core, or batches are slow to be handed over."
        return replace(
            finding,
            cause=f"{finding.title}: {text}",
            evidence=(*finding.evidence, Evidence(text, took_ms, "ms", QUESTION, params)),
            next_step=_CORES,
        )
    seen = Evidence(why.sentence, why.sample_ms, "ms", QUESTION, params)
    return replace(
        finding,
        cause=f"{finding.title}: {why.sentence}",
        evidence=(*finding.evidence, seen),
        alternatives=finding.alternatives[1:],  # what they did distinguishes them
        next_step=why.next_step,
    )
