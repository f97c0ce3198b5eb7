"""Slow ranks that only have longer sequences than their peers, and those that are slow besides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding
from diagnosis.loading.balance import QUESTIONS, Balance, balance_of
from diagnosis.statistics.units import steps_text

KIND = "sequence_imbalance"

REST = 0.06
"""A rank is slow by itself that takes this much longer than its sequences let expect, beyond the
error of the model,"""

MOST = 0.8
"""unless these explain this share of it, of the logarithm."""

_WORTH_TELLING = 1.03


def with_longer_sequences(
    findings: tuple[Finding, ...], tables: Mapping[str, pa.Table]
) -> tuple[Finding, ...]:
    """Findings about slow ranks; those that sequences explain become findings about sequences.

    `tables`: answers to balance.QUESTIONS, if these were asked.
    """
    if not findings or not set(QUESTIONS) <= set(tables):
        return findings
    balance = balance_of(tables)
    if balance is None:
        return findings
    places = tables["rank_places"].select(["rank", "dp"]).to_pylist()
    replica_of = {place["rank"]: place["dp"] for place in places if place["dp"] is not None}
    return tuple(_explained(finding, balance, replica_of) for finding in findings)


def _explained(finding: Finding, balance: Balance, replica_of: Mapping[int, int]) -> Finding:
    slowdown = finding.slowdown
    if len(finding.culprits) != 1 or slowdown is None or slowdown <= 1:
        return finding
    rank = finding.culprits[0].rank
    replica_R = np.array([replica_of.get(first, -1 - first) for first in balance.rank_R.tolist()])
    own_R = replica_R == replica_of.get(rank, -1 - rank)
    steps = [step for step in balance.steps if finding.first_step <= step.step <= finding.last_step]
    if not steps or own_R.sum() != 1 or own_R.size < 2:
        return finding
    expected_RS = np.stack([step.drawn_RM.sum(axis=1) for step in steps], axis=1)
    ratio = float(np.median(expected_RS[own_R][0] / np.median(expected_RS[~own_R], axis=0)))
    if ratio < _WORTH_TELLING:
        return finding
    seen = Evidence(
        f"The lengths of its sequences let expect {ratio:.2f}x its peers' compute in "
        f"{steps_text(steps[0].step, steps[-1].step)}: a cost for each micro-batch, token and "
        f"squared length, fitted with a median error of {100 * balance.model.error:.1f} %.",
        round(ratio, 4),
        "x",
        "batch_lengths",
        (("attempt", finding.attempt), ("step_min", steps[0].step), ("step_max", steps[-1].step)),
    )
    finding = replace(finding, evidence=(*finding.evidence, seen))
    rest = slowdown / ratio - 1
    share = math.log(ratio) / math.log(slowdown)
    if rest > REST + balance.model.error and share < MOST:
        return finding
    title = f"Rank {rank} has longer sequences than its peers"
    return replace(
        finding,
        kind=KIND,
        title=title,
        cause=f"{title}, which let expect {ratio:.2f}x their compute.",
        alternatives=(),
        next_step="Deal the sequences of each step to all replicas by their cost (tokens and "
        "squared lengths), the longest first.",
    )
