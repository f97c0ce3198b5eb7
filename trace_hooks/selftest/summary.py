"""What rank 0 prints at the end: one line per test and size, the slowest of each named."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from trace_hooks.selftest.plan import KIB, MIB, RECHECK

Row = Mapping[str, Any]


def summary_lines(rows: Sequence[Row]) -> list[str]:
    """Lines of a table; rechecks are left out, and what failed is listed after it."""
    cells: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["value"] is not None and not row["test"].endswith(RECHECK):
            cells[row["test"], row["num_bytes"]].append(row)
    lines = [f"{'test':<12}{'size':>10}{'median':>18}   slowest"]
    for (test, num_bytes), own in cells.items():
        usual = statistics.median(row["value"] for row in own)
        slowest = min(own, key=lambda row: row["value"])
        median = f"{usual:.3g} {slowest['unit']}"
        lines.append(
            f"{test:<12}{size_text(num_bytes):>10}{median:>18}   "
            f"{slowest['value']:.3g}, {who_text(slowest)}"
        )
    failed = dict.fromkeys(
        f"failed: {row['test']} of {who_text(row)}: {row['problem']}"
        for row in rows
        if row["problem"]
    )
    return [*lines, *failed]


def who_text(row: Row) -> str:
    """A rank, a pair or a group, with hosts."""
    if row["peer"] >= 0:
        low, high = sorted([(row["rank"], row["host"]), (row["peer"], row["peer_host"])])
        return f"rank {low[0]} ({low[1]}) and rank {high[0]} ({high[1]})"
    if row["test"].startswith(("halves", "all_reduce")):
        return f"ranks {row['members']}"
    return f"rank {row['rank']} ({row['host']})"


def size_text(num_bytes: int) -> str:
    """64 KiB, 8 MiB."""
    return f"{num_bytes / MIB:.4g} MiB" if num_bytes >= MIB else f"{num_bytes / KIB:.4g} KiB"
