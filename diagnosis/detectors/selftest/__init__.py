"""selftest_host, selftest_device, selftest_link: what a self-test measured is slow for one of many.

Devices and pairs are compared with those that do the same (culprits.py): nearly all pairs of a
host slow is the host, of a rank its device or network card, a single pair the link between two.
What stood out was measured again with all others idle, and must be slow then as well. With
--baseline every measurement is also compared with the same places of an earlier run (past.py).

Source: thresholds as in SuperBench (microsoft/superbenchmark), wider because nothing is known of
the devices; the rest is ours. Known false positives: one host whose pairs of devices have different
links (some share a switch), where the slower ones are few. Blind spots: fewer than four devices or
pairs; what is slow everywhere, without a baseline; links that fail now and then.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from diagnosis.detectors.selftest.culprits import judge
from diagnosis.detectors.selftest.measurements import QUESTION, cells_of, failures_of
from diagnosis.detectors.selftest.text import (
    KIND_OF,
    checked_text,
    failed_finding,
    findings_of,
    unclear_text,
    unconfirmed_text,
)
from diagnosis.findings import NotEnoughData, Verdict

NAME = "selftest"
FLEET = "selftest_fleet"
KINDS = (*dict.fromkeys(KIND_OF.values()), FLEET)
QUESTIONS = (QUESTION,)

FEWEST_MEASURED = 4


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on a self-test; None for a run that is none."""
    table = tables[QUESTION]
    if not table.num_rows:
        return None
    cells = [cell for cell in cells_of(table) if len(cell.measured) >= FEWEST_MEASURED]
    failed = [failed_finding(one, attempt) for one in failures_of(table)]
    if not cells and not failed:
        missing = (
            f"The self-test measured fewer than {FEWEST_MEASURED} devices or pairs; give --baseline"
            " to compare with an earlier one."
        )
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, missing),))
    judged = [judge(cell) for cell in cells]
    culprits = [culprit for one in judged for culprit in one.culprits]
    unclear = tuple(
        unclear_text(cell, one.num_unclear)
        for cell, one in zip(cells, judged, strict=True)
        if one.num_unclear
    )
    unclear += tuple(unconfirmed_text(one) for each in judged for one in each.unconfirmed)
    findings = (*failed, *findings_of(culprits, attempt, "the others"))
    checked = None if findings else checked_text(cells)
    return Verdict(NAME, findings, checked, set_aside=unclear)
