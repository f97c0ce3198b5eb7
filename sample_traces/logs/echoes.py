"""What the other ranks, launchers and schedulers write after a rank has died or stopped."""

from __future__ import annotations

from collections.abc import Collection

from sample_traces.logs.entries import RANKS_PER_HOST, SECOND_NS, Job

_OPS = ("ALLREDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "BROADCAST", "ALLTOALL_BASE")


def crash(job: Job, at_ns: int, dead: Collection[int], exit_code: int = 1) -> None:
    """Ranks died: launchers of their hosts end the others there, the rest lose connections."""
    rng = job.rng
    hosts = {job.host_of(rank) for rank in dead}
    boxed_ns = at_ns + round(rng.uniform(0.2, 1.5) * SECOND_NS)
    is_quick = rng.random() < 0.6
    for rank in range(job.num_ranks):
        if rank in dead:
            continue
        if job.host_of(rank) in hosts and rng.random() < 0.5:
            continue  # ended by SIGTERM before it could write anything
        if is_quick:
            _lost_peer(job, at_ns + round(rng.uniform(0.05, 3.0) * SECOND_NS), rank, min(dead))
        else:
            timed_out(job, at_ns + job.timeout_s * SECOND_NS, (rank,))
    for host in range(job.num_hosts):
        victim = min(dead) if host in hosts else host * RANKS_PER_HOST + rng.randrange(8)
        late_ns = 0 if host in hosts else (4 if is_quick else job.timeout_s + 3) * SECOND_NS
        code = exit_code if host in hosts else rng.choice((1, -6))
        launcher_fails(job, boxed_ns + late_ns, host, victim, code)


def launcher_fails(job: Job, at_ns: int, host: int, rank: int, exit_code: int) -> None:
    """Torchrun or Slurm tell which process ended."""
    if job.launcher == "slurm":
        name = job.host_name(host)
        text = f"srun: error: {name}: task {rank}: Exited with exit code {abs(exit_code)}"
        job.of_host(at_ns, host, text, "scheduler")
        job.of_host(at_ns + SECOND_NS, host, "srun: Terminating StepId=881234.0", "scheduler")
        return
    for other in range(RANKS_PER_HOST):
        local = host * RANKS_PER_HOST + other
        if local != rank:
            text = f"Sending process {job.pid(local)} closing signal SIGTERM"
            job.of_host(at_ns, host, text, "launcher")
    local_rank = rank % RANKS_PER_HOST
    job.of_host(
        at_ns + SECOND_NS,
        host,
        f"failed (exitcode: {exit_code}) local_rank: {local_rank} (pid: {job.pid(rank)}) of binary:"
        " /usr/bin/python3.11",
        "launcher",
    )
    job.of_host(at_ns + 2 * SECOND_NS, host, _box(job, rank, exit_code), "launcher", "none")


def _box(job: Job, rank: int, exit_code: int) -> str:
    line = "=" * 60
    signal = {-6: "SIGABRT", -9: "SIGKILL", -11: "SIGSEGV"}.get(exit_code)
    told = f"Signal {-exit_code} ({signal}) received by PID {job.pid(rank)}" if signal else (
        "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    )  # fmt: skip
    return (
        "Traceback (most recent call last):\n"
        '  File "/usr/local/bin/torchrun", line 8, in <module>\n'
        "    sys.exit(main())\n"
        '  File "/usr/local/lib/python3.11/site-packages/torch/distributed/run.py", line 918, in main\n'
        "    run(args)\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        f"{line}\ntrain.py FAILED\n{'-' * 60}\nFailures:\n  <NO_OTHER_FAILURES>\n{'-' * 60}\n"
        "Root Cause (first observed failure):\n[0]:\n"
        f"  host      : {job.host_name(job.host_of(rank))}\n"
        f"  rank      : {rank} (local_rank: {rank % RANKS_PER_HOST})\n"
        f"  exitcode  : {exit_code} (pid: {job.pid(rank)})\n"
        f"  error_file: <N/A>\n  traceback : {told}\n{line}"
    )


def _lost_peer(job: Job, at_ns: int, rank: int, dead: int) -> None:
    address = job.address(job.host_of(dead))
    who = f"{job.host_name(job.host_of(rank))}:{job.pid(rank)}:{job.pid(rank) + 311} [{rank % 8}]"
    port = job.rng.randrange(33_000, 60_000)
    texts = (
        (f"{who} misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer {address}<{port}>", "nccl"),
        (f"{who} NCCL WARN Call to recv from {address}<{port}> failed : Connection reset by peer", "nccl"),
        (
            f"[Rank {rank}] NCCL watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5\n"
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\n"
            f"socketProgressOpt: Call to recv from {address}<{port}> failed : Connection reset by peer",
            "c10d",
        ),
        (
            "Traceback (most recent call last):\n"
            '  File "/opt/train/train.py", line 211, in <module>\n    main()\n'
            '  File "/opt/train/train.py", line 160, in step\n    dist.all_reduce(total)\n'
            '  File "/usr/local/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2810, in all_reduce\n    work.wait()\n'
            f"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [{address}]:{port}",
            "none",
        ),
        (f"recvValue failed on SocketImpl(fd=63, addr=[localhost]:{port}, remote=[{address}]:29500): Connection reset by peer", "c10d"),
    )  # fmt: skip
    text, style = job.rng.choice(texts)
    job.say(at_ns, rank, text, style, level="ERROR")
    if job.rng.random() < 0.3:
        job.say(
            at_ns + SECOND_NS,
            rank,
            f'[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Failed to check the "should dump" flag on'
            " TCPStore, (maybe TCPStore server has shut down too early)",
            "c10d",
            level="ERROR",
        )


def timed_out(job: Job, at_ns: int, ranks: Collection[int], seq: int = 0) -> None:
    """Watchdogs give up."""
    rng = random_of(job)
    op, seq = _OPS[rng % len(_OPS)], seq or 2000 + rng % 7000
    for rank in ranks:
        begins_ns = at_ns + job.rng.randrange(0, 80_000_000)
        ran = job.timeout_s * 1000 + job.rng.randrange(1, 90)
        job.say(
            begins_ns,
            rank,
            f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
            f"OpType={op}, NumelIn=16777216, NumelOut=16777216, Timeout(ms)={job.timeout_s * 1000})"
            f" ran for {ran} milliseconds before timing out.",
            "c10d",
            level="ERROR",
        )
        job.say(
            begins_ns + 10**6,
            rank,
            f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or timeout)"
            f" detected by watchdog at work: {seq}, last enqueued NCCL work: {seq}, last completed"
            f" NCCL work: {seq - 1}.",
            "c10d",
            level="ERROR",
        )
        job.say(
            begins_ns + 2 * 10**6,
            rank,
            f"[Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
            "c10d",
            level="ERROR",
        )


def random_of(job: Job) -> int:
    """A number that is the same for all ranks of a job."""
    return job.start_ns // SECOND_NS % 9973
