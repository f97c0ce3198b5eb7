"""A self-test against an earlier one of the same machines (--baseline)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from diagnosis.detectors.selftest import FLEET, NAME
from diagnosis.detectors.selftest.culprits import LEAST_TRANSFER, Culprit, What, judge, least_of
from diagnosis.detectors.selftest.measurements import Cell, against, cells_of
from diagnosis.detectors.selftest.text import cell_text, findings_of, fleet_finding
from diagnosis.findings import NotEnoughData, Verdict

FEWEST_TO_COMPARE = 4
"""With fewer, each is compared with its own past alone."""
FASTEST = 25
"""Per cent of the measurements; where even they are slower, all machines are. One slow host of four
touches half of all pairs."""


def compare(table: pa.Table, good: pa.Table, attempt: int) -> Verdict:
    """Verdict on answers of selftests, `good` the earlier one."""
    then = {(cell.test, cell.num_bytes): cell for cell in cells_of(good)}
    cells = [
        against(cell, then[cell.test, cell.num_bytes])
        for cell in cells_of(table)
        if (cell.test, cell.num_bytes) in then
    ]
    cells = [cell for cell in cells if cell.measured]
    if not cells:
        missing = "Self-test and baseline have no host, test and size in common."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, missing),))
    culprits: list[Culprit] = []
    slower: list[tuple[Cell, float]] = []
    for cell in cells:
        if len(cell.measured) < FEWEST_TO_COMPARE:
            culprits += _alone(cell)
            continue
        culprits += judge(cell).culprits
        least = max(least_of(cell), LEAST_TRANSFER)
        fastest = min(np.percentile(times, FASTEST) for times in (cell.short_M, cell.median_M))
        if fastest >= least:
            slower.append((cell, float(np.median(cell.short_M))))
    findings = findings_of(culprits, attempt, "in the baseline")
    if slower:
        findings = (fleet_finding(FLEET, slower, attempt), *findings)
    names = ", ".join(cell_text(cell) for cell in cells)
    return Verdict(NAME, findings, None if findings else f"As fast as in the baseline: {names}.")


def _alone(cell: Cell) -> list[Culprit]:
    """Those that take far longer than they did, of too few to know what is common to all."""
    least = max(least_of(cell), LEAST_TRANSFER)
    slow = (cell.short_M >= least) & (cell.median_M >= least)
    what: What = "rank" if cell.is_of_devices else "link"
    return [
        Culprit(what, cell.measured[index].ranks, cell, index, float(cell.short_M[index]), 1, 1)
        for index in map(int, np.flatnonzero(slow))
    ]
