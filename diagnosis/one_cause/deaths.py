"""Deaths that are no cause: of ranks that were seen alive, or that died in a collective that was
entered differently."""

from __future__ import annotations

from collections.abc import Sequence

from diagnosis.findings import Diagnosis, Finding
from diagnosis.one_cause.changes import with_changes

MISMATCHES = ("mismatched_op", "mismatched_dtype", "mismatched_size")
DEATHS = ("dead_rank", "silent_host")
ALIVE = ("hung_rank", "missing_rank", "stalled_storage", "data_stalled", "group_order_deadlock")


def without_echoes(diagnosis: Diagnosis) -> Diagnosis:
    """Without deaths that are no cause: of ranks that were seen alive while the job was stuck, and
    with gloo of those that died in a collective that was entered differently, the ones with the
    smaller buffer.
    """
    findings = [finding for verdict in diagnosis.verdicts for finding in verdict.findings]
    is_mismatch = any(finding.kind in MISMATCHES for finding in findings)
    alive = {rank for one in findings if one.kind in ALIVE for rank in _seen_alive(one)}

    def echoes(flat: Sequence[Finding]) -> dict[int, Finding | str | None]:
        why: dict[int, Finding | str | None] = {}
        for index, finding in enumerate(flat):
            if finding.kind not in DEATHS:
                continue
            if is_mismatch:
                text = "it died in a collective that was entered differently."
                why[index] = f"{finding.title}: {text}"
            elif {place.rank for place in finding.culprits} <= alive:
                why[index] = f"{finding.title}: the process was seen alive."
        return why

    return with_changes(diagnosis, [echoes])


def _seen_alive(stuck: Finding) -> set[int]:
    """Ranks that were waited for, and those that waited for them."""
    return {place.rank for place in stuck.culprits} | set(stuck.victims)
