"""Jobs that end because ranks waited in vain, and jobs whose logs do not show why."""

from __future__ import annotations

from sample_traces.logs.echoes import launcher_fails, timed_out
from sample_traces.logs.entries import RANKS_PER_HOST, SECOND_NS, Job
from sample_traces.logs.truth import UNKNOWN, Truth, of_rank

_ALONE = ("Running tokenizer on dataset", "Evaluating", "saving", "Map")


def rank0_busy(job: Job, at_ns: int) -> Truth:
    """Rank 0 does something alone for longer than the timeout."""
    if job.launcher == "slurm":
        job.launcher = "folder"
    doing = job.rng.choice(_ALONE)
    if doing == "saving":
        job.say(at_ns, 0, "Saving model checkpoint to /checkpoints/step_2000", "log")
    for part in range(1, 7):
        share = part * 12
        rest = f"{share * 90}/9000 [{part * 4:02d}:55<20:02,  2.10s/it]"
        if doing != "saving":
            bar = f"{doing}:  {share}%|{'█' * part}   | {rest}"
            job.say(at_ns + part * job.timeout_s * SECOND_NS // 7, 0, bar)
    _others_time_out(job, at_ns, 0)
    says = ("Running tokenizer", "Evaluating", "Saving model", "Map:", "Watchdog caught")
    return of_rank(job, "timeout", "fix_setting fix_code raise_limit", 0, *says)


def never_comes(job: Job, at_ns: int) -> Truth:
    """One rank stops before a collective and writes nothing more; the others time out."""
    rank = job.any_rank()
    _others_time_out(job, at_ns, rank)
    return of_rank(
        job, "timeout", "restart fix_code fix_setting cordon_node", rank, "Watchdog caught"
    )


def _others_time_out(job: Job, at_ns: int, rank: int) -> None:
    others = [other for other in range(job.num_ranks) if other != rank]
    timed_out(job, at_ns + job.timeout_s * SECOND_NS, others)
    for host in range(job.num_hosts):
        first = host * RANKS_PER_HOST
        victim = first + (1 if rank == first else 0)
        launcher_fails(job, at_ns + (job.timeout_s + 3) * SECOND_NS, host, victim, -6)


def unknown(job: Job, at_ns: int) -> Truth:
    """All that is left are echoes."""
    if job.rng.random() < 0.5:
        timed_out(job, at_ns + job.timeout_s * SECOND_NS, range(job.num_ranks))
        late_ns = at_ns + (job.timeout_s + 3) * SECOND_NS
    else:
        late_ns = at_ns + 5 * SECOND_NS
        for rank in range(job.num_ranks):
            text = (
                f"[Rank {rank}] NCCL watchdog thread terminated with exception: NCCL error: "
                "unhandled system error, NCCL version 2.21.5\nncclSystemError: System call (e.g. "
                "socket, malloc) or external library call failed or device error."
            )
            job.say(at_ns + job.rng.randrange(3 * 10**9), rank, text, "c10d", level="ERROR")
    for host in range(job.num_hosts):
        rank = host * RANKS_PER_HOST + job.rng.randrange(8)
        launcher_fails(job, late_ns, host, rank, -6)
    return UNKNOWN


def finished(job: Job, at_ns: int) -> Truth:
    """Nothing fails: the job comes to its end."""
    for rank in range(job.num_ranks):
        job.say(at_ns, rank, "training finished, saving the final model", "log")
        if job.rng.random() < 0.3:
            text = (
                "ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed "
                "before we destruct ProcessGroupNCCL. On normal program exit, the application "
                "should call destroy_process_group to ensure that any pending NCCL operations have "
                "finished in this process."
            )
            job.say(at_ns + SECOND_NS, rank, text, "none")
    return UNKNOWN
