"""All kinds of failures that can be generated, by name."""

from __future__ import annotations

from collections.abc import Callable

from sample_traces.logs import machine_causes, program_causes, setting_causes, waiting_causes
from sample_traces.logs.entries import Job
from sample_traces.logs.truth import Truth

Cause = Callable[[Job, int], Truth]
"""Writes what a failure at a time (ns) shows, and returns what is true of it."""

AT_START: dict[str, Cause] = {
    each.__name__: each
    for each in (
        program_causes.import_error,
        setting_causes.port_in_use,
        setting_causes.small_shm,
        setting_causes.memlock,
        setting_causes.fabric,
        setting_causes.firewall,
        setting_causes.nccl_version,
    )
}

WHILE_TRAINING: dict[str, Cause] = {
    each.__name__: each
    for each in (
        program_causes.exception_one,
        program_causes.exception_all,
        program_causes.cuda_oom,
        program_causes.loader,
        program_causes.not_a_number,
        program_causes.checkpoint_corrupt,
        program_causes.segfault,
        program_causes.gil,
        machine_causes.xid,
        machine_causes.host_oom,
        machine_causes.killed,
        machine_causes.network,
        machine_causes.disk_full,
        machine_causes.stale_nfs,
        machine_causes.preemption,
        machine_causes.node_failure,
        waiting_causes.rank0_busy,
        waiting_causes.never_comes,
        waiting_causes.unknown,
        waiting_causes.finished,
    )
}

CAUSES = {**WHILE_TRAINING, **AT_START}
