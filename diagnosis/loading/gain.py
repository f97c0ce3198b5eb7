"""Findings about uneven sequences, with what dealing the same global batches again would give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from diagnosis.findings import Evidence, Finding
from diagnosis.loading.balance import Balance, balance_of

NO_GAIN = 0.01


def with_gain(finding: Finding, tables: Mapping[str, pa.Table]) -> Finding:
    """With the predicted gain; as it is where the job does not state lengths."""
    balance = balance_of(tables)
    if balance is None:
        return finding
    gain = balance.gain(where_replicas_wait(balance))
    if gain is None:
        return finding
    first = finding.evidence[0]
    seen = Evidence(
        sentence(balance), round(gain, 4), "share", "batch_lengths", first.params, first.view
    )
    return replace(finding, evidence=(*finding.evidence, seen))


def where_replicas_wait(balance: Balance) -> str:
    """Field of Takes that fits the job as far as its layout tells."""
    return "in_pipeline" if balance.num_stages > 1 else "at_step"


def sentence(balance: Balance) -> str:
    """What dealing again would give, and how good the model is that says so."""
    gain = balance.gain(where_replicas_wait(balance))
    if gain is None:
        return (
            "The sequences of a step do not fit into its micro-batches in another order: these are "
            "packed to the brim."
        )
    error = f"{100 * balance.model.error:.1f} %"
    model = f"by a cost for each micro-batch, token and squared length, median error {error}"
    if gain < NO_GAIN:
        return f"Dealing the sequences of each step again would save less than 1 % ({model})."
    return (
        f"The same sequences of each step, dealt to its micro-batches by cost, the longest first, "
        f"would take {100 * gain:.0f} % less time to compute ({model})."
    )
