"""How each kind of failure begins, and what is true of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from sample_traces.logs import wording
from sample_traces.logs.echoes import crash, launcher_fails, timed_out
from sample_traces.logs.entries import RANKS_PER_HOST, SECOND_NS, Job


@dataclass(frozen=True)
class Truth:
    """What a diagnosis should say. `says`: pieces of text of which the line it names holds one;
    `ranks`, `hosts`: whom it may name, both empty where nobody is at fault; `unknown`: the logs do
    not show a cause. `node`: where it happened, '' nowhere in particular.
    """

    category: str
    says: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    node: str = ""
    unknown: bool = False


def _trace(rng: random.Random, last: str, *inner: str) -> str:
    depth = rng.randrange(1, 3)
    frames = [
        '  File "/opt/train/train.py", line 312, in <module>\n    main()',
        '  File "/opt/train/train.py", line 240, in train\n    loss = step(batch)',
        '  File "/opt/train/loop.py", line 77, in step\n    out = model(batch)',
    ][-depth - 1 :]
    return "\n".join(["Traceback (most recent call last):", *frames, *inner, last])


def _dies(job: Job, at_ns: int, rank: int, text: str, exit_code: int = 1) -> None:
    job.say(at_ns, rank, text, "none", level="ERROR")
    crash(job, at_ns, (rank,), exit_code)


def _rank(job: Job) -> int:
    return job.rng.randrange(job.num_ranks)


def _of_rank(job: Job, category: str, rank: int, *says: str) -> Truth:
    node = job.host_name(job.host_of(rank))
    return Truth(category, says, (rank,), (node,), node)


def exception_one(job: Job, at_ns: int) -> Truth:
    """A rank raises; the others lose it."""
    rank, last = _rank(job), wording.exception(job.rng)
    text = _trace(job.rng, last)
    if job.rng.random() < 0.25:
        text = (
            f"{text}\n\nDuring handling of the above exception, another exception occurred:\n\n"
            + _trace(job.rng, "RuntimeError: training step failed, see above")
        )
    _dies(job, at_ns, rank, text)
    return _of_rank(job, "user_code", rank, last[:60])


def exception_all(job: Job, at_ns: int) -> Truth:
    """Every rank raises the same in the same seconds."""
    last = wording.exception(job.rng)
    for rank in range(job.num_ranks):
        job.say(at_ns + job.rng.randrange(10**9), rank, _trace(job.rng, last), level="ERROR")
    for host in range(job.num_hosts):
        rank = host * RANKS_PER_HOST + job.rng.randrange(8)
        launcher_fails(job, at_ns + 3 * SECOND_NS, host, rank, 1)
    return Truth("user_code", (last[:60],))


def cuda_oom(job: Job, at_ns: int) -> Truth:
    """A rank runs out of the GPU's memory."""
    rank = _rank(job)
    device = rank % RANKS_PER_HOST
    last = job.rng.choice(
        (
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {device} has a total capacity of 79.11 GiB of which 1.20 GiB is free. Process 41203 has 77.90 GiB memory in use. Of the allocated memory 70.11 GiB is allocated by PyTorch, and 5.31 GiB is reserved by PyTorch but unallocated.",
            f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB (GPU {device}; 39.39 GiB total capacity; 36.02 GiB already allocated; 510.31 MiB free; 37.40 GiB reserved in total by PyTorch)",
            "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        )
    )  # fmt: skip
    _dies(job, at_ns, rank, _trace(job.rng, last))
    return _of_rank(job, "memory", rank, "out of memory", "ALLOC_FAILED")


_XIDS = (
    ("Xid (PCI:0000:{bus}:00): 79, pid={pid}, name=python, GPU has fallen off the bus.", "CUDA error: unknown error"),
    ("Xid (PCI:0000:{bus}:00): 79, GPU has fallen off the bus.", "CUDA error: unspecified launch failure"),
    ("Xid (PCI:0000:{bus}:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer", "CUDA error: uncorrectable ECC error encountered"),
    ("Xid (PCI:0000:{bus}:00): 74, pid={pid}, name=python, NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", "CUDA error: uncorrectable NVLink error detected during the execution"),
    ("Xid (PCI:0000:{bus}:00): 95, pid={pid}, name=python, Uncontained: FBHUB. RST: Yes, D-RST: No", "CUDA error: uncorrectable ECC error encountered"),
    ("Xid (PCI:0000:{bus}:00): 119, pid={pid}, name=python, Timeout after 6s of waiting for RPC response from GPU3 GSP! Expected function 76", "CUDA error: unknown error"),
    ("Xid (PCI:0000:{bus}:00): 31, pid={pid}, name=python, Ch 00000018, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC3", "CUDA error: an illegal memory access was encountered"),
    ("The NVIDIA GPU 0000:{bus}:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not responding to commands.", "CUDA error: unknown error"),
)  # fmt: skip


def xid(job: Job, at_ns: int) -> Truth:
    """A GPU fails: the kernel says so, then the rank on it."""
    rank, host = _rank(job), 0
    host = job.host_of(rank)
    line, error = job.rng.choice(_XIDS)
    text = line.format(bus=job.rng.choice(("1b", "5d", "9a", "cb", "db")), pid=job.pid(rank))
    job.of_host(at_ns, host, f"NVRM: {text}", "kernel")
    if job.rng.random() < 0.4:
        other = f"NVRM: Xid (PCI:0000:5d:00): 45, pid={job.pid(rank)}, name=python, Ch 00000008"
        job.of_host(at_ns + SECOND_NS // 5, host, other, "kernel")
    shown = job.rng.choice(("torch.AcceleratorError", "RuntimeError")) + f": {error}"
    _dies(job, at_ns + SECOND_NS // 2, rank, _trace(job.rng, shown), -6)
    return _of_rank(job, "hardware", rank, text[:40], "fallen off the bus", "illegal memory")


def host_oom(job: Job, at_ns: int) -> Truth:
    """The kernel kills a rank."""
    rank = _rank(job)
    pid = job.pid(rank)
    text = job.rng.choice(
        (
            f"Out of memory: Killed process {pid} (python) total-vm:412345678kB, anon-rss:231245678kB, file-rss:0kB, shmem-rss:1234kB, UID:1000 pgtables:512344kB oom_score_adj:0",
            f"Memory cgroup out of memory: Killed process {pid} (python3.11) total-vm:212345678kB, anon-rss:131245678kB, file-rss:68kB, shmem-rss:0kB, UID:1000 pgtables:312344kB oom_score_adj:984",
            f"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/user.slice,task=python,pid={pid},uid=1000",
        )
    )  # fmt: skip
    job.of_host(at_ns, job.host_of(rank), text, "kernel")
    crash(job, at_ns, (rank,), -9)
    return _of_rank(job, "memory", rank, text[:30])


def loader(job: Job, at_ns: int) -> Truth:
    """A process of a rank's data loader dies."""
    rank = _rank(job)
    last = job.rng.choice(
        (
            "RuntimeError: DataLoader worker (pid 58211) is killed by signal: Killed. ",
            "RuntimeError: DataLoader worker (pid(s) 58211, 58212) exited unexpectedly",
            "RuntimeError: DataLoader worker (pid 58211) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
            "RuntimeError: DataLoader worker (pid 58211) is killed by signal: Segmentation fault. ",
        )
    )  # fmt: skip
    _dies(job, at_ns, rank, _trace(job.rng, last))
    return _of_rank(job, "memory", rank, "DataLoader worker")


def network(job: Job, at_ns: int) -> Truth:
    """A link of a host fails: its card says so, or transfers from and to it fail."""
    host = job.rng.randrange(job.num_hosts)
    name = job.host_name(host)
    if job.rng.random() < 0.5:
        return _link_down(job, at_ns, host, name)
    ranks = [host * RANKS_PER_HOST + local for local in (0, 3)]
    others = [(host + 1) % job.num_hosts, (host - 1) % job.num_hosts]
    for rank, other in zip(ranks, others, strict=True):
        _completion(job, at_ns + job.rng.randrange(10**9), rank, other)
        peer = other * RANKS_PER_HOST + rank % RANKS_PER_HOST
        _completion(job, at_ns + 10**9, peer, host)
    crash(job, at_ns + SECOND_NS, tuple(ranks), -6)
    nodes = (name,) if job.num_hosts > 2 else tuple(job.host_name(h) for h in range(2))
    says = ("Got completion", "completed with error")
    return Truth("network", says, (), nodes, name if job.num_hosts > 2 else "")


def _completion(job: Job, at_ns: int, rank: int, other: int) -> None:
    me = f"{job.host_name(job.host_of(rank))}:{job.pid(rank)}:{job.pid(rank) + 900} [{rank % 8}]"
    port = job.rng.randrange(33_000, 60_000)
    peer = f"{job.address(other)}<{port}>"
    text = job.rng.choice(
        (
            f"{me} transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer {peer} with error 12, opcode 0, len 0, vendor err 129 (Recv) localGid ::ffff:10.1.2.3 remoteGids ::ffff:10.1.2.4",
            f"{me} net_ib.cc:808 NCCL WARN NET/IB : Got completion from peer {peer} with status=12 opcode=32698 len=32696 vendor err 129 (Send)",
        )
    )  # fmt: skip
    job.say(at_ns, rank, text, "nccl", level="WARN")


def _link_down(job: Job, at_ns: int, host: int, name: str) -> Truth:
    ranks = [host * RANKS_PER_HOST + local for local in (0, 1)]
    if job.rng.random() < 0.5:
        text = job.rng.choice(
            ("mlx5_core 0000:0c:00.0: Port: 1 Link DOWN", "mlx5_core 0000:5c:00.0 ib2: Link down")
        )
        job.of_host(at_ns, host, text, "kernel")
    else:
        for rank in ranks:
            me = f"{name}:{job.pid(rank)}:{job.pid(rank) + 900} [{rank % 8}]"
            text = (
                f"{me} misc/ibvwrap.cc:262 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error"
            )
            job.say(at_ns, rank, text, "nccl", level="WARN")
    for rank in ranks:
        _completion(job, at_ns + 20 * SECOND_NS, rank, (host + 1) % job.num_hosts)
    crash(job, at_ns + 21 * SECOND_NS, tuple(ranks), -6)
    return Truth("network", ("Link down", "Link DOWN", "port error"), tuple(ranks), (name,), name)


def disk_full(job: Job, at_ns: int) -> Truth:
    """A checkpoint does not fit on the disk."""
    rank = job.rng.choice((0, _rank(job)))
    last = job.rng.choice(
        (
            "OSError: [Errno 28] No space left on device: '/checkpoints/step_900/rank.pt'",
            "OSError: [Errno 122] Disk quota exceeded",
            "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: \"No space left on device\" })",
            "RuntimeError: [enforce fail at inline_container.cc:857] . PytorchStreamWriter failed writing file data/322: file write failed",
        )
    )  # fmt: skip
    job.say(at_ns - SECOND_NS, rank, "Saving checkpoint to /checkpoints/step_900", "log")
    _dies(job, at_ns, rank, _trace(job.rng, last))
    return _of_rank(job, "storage", rank, "No space left", "quota exceeded", "PytorchStreamWriter")


def stale_nfs(job: Job, at_ns: int) -> Truth:
    """All ranks of a host lose a file system."""
    host = job.rng.randrange(job.num_hosts)
    last = job.rng.choice(
        (
            "OSError: [Errno 116] Stale file handle: '/mnt/data/shards/00317.bin'",
            "RuntimeError: read(): fd 33 failed with Stale file handle",
            "OSError: [Errno 5] Input/output error: '/mnt/data/shards/00317.bin'",
        )
    )
    ranks = tuple(range(host * RANKS_PER_HOST, (host + 1) * RANKS_PER_HOST))
    if job.rng.random() < 0.4:
        ranks = (job.rng.choice(ranks),)
    for rank in ranks:
        job.say(at_ns + job.rng.randrange(10**9), rank, _trace(job.rng, last), level="ERROR")
    crash(job, at_ns + SECOND_NS, ranks)
    name = job.host_name(host)
    return Truth("storage", ("Stale file handle", "Input/output"), ranks, (name,), name)


def rank0_busy(job: Job, at_ns: int) -> Truth:
    """Rank 0 does something alone for longer than the timeout."""
    doing = job.rng.choice(("Running tokenizer on dataset", "Evaluating", "saving", "Map"))
    begins_ns = at_ns
    if doing == "saving":
        job.say(begins_ns, 0, "Saving model checkpoint to /checkpoints/step_2000", "log")
    for part in range(1, 7):
        share = part * 12
        bar = f"{doing}:  {share}%|{'█' * part}   | {share * 90}/9000 [{part * 4:02d}:55<20:02,  2.10s/it]"
        if doing != "saving":
            job.say(begins_ns + part * job.timeout_s * SECOND_NS // 7, 0, bar)
    timed_out(job, at_ns + job.timeout_s * SECOND_NS, range(1, job.num_ranks))
    for host in range(job.num_hosts):
        rank = host * RANKS_PER_HOST + (1 if host == 0 else 0)
        launcher_fails(job, at_ns + (job.timeout_s + 3) * SECOND_NS, host, rank, -6)
    says = ("Running tokenizer", "Evaluating", "Saving model", "Map:", "Watchdog caught")
    return _of_rank(job, "timeout", 0, *says)


def config(job: Job, at_ns: int) -> Truth:
    """A setting is wrong from the start."""
    kind = job.rng.randrange(4)
    if kind == 0:
        rank = job.host_of(0) * RANKS_PER_HOST
        text = _trace(
            job.rng,
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        )  # fmt: skip
        _dies(job, at_ns, rank, text)
        return _of_rank(job, "setting", rank, "EADDRINUSE", "address already in use")
    if kind == 1:
        host = job.rng.randrange(job.num_hosts)
        for local in range(RANKS_PER_HOST):
            rank = host * RANKS_PER_HOST + local
            me = f"{job.host_name(host)}:{job.pid(rank)}:{job.pid(rank) + 7} [{local}]"
            text = f"{me} include/shm.h:42 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a1B2c3 (size 9637888)"
            job.say(at_ns + local, rank, text, "nccl", level="WARN")
        name = job.host_name(host)
        ranks = tuple(range(host * RANKS_PER_HOST, (host + 1) * RANKS_PER_HOST))
        crash(job, at_ns + SECOND_NS, ranks)
        return Truth("setting", ("shared memory",), ranks, (name,), name)
    if kind == 2:
        for rank in range(job.num_ranks):
            me = f"{job.host_name(job.host_of(rank))}:{job.pid(rank)}:{job.pid(rank) + 7} [{rank % 8}]"
            text = f"{me} misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"
            job.say(at_ns + job.rng.randrange(10**8), rank, text, "nccl", level="WARN")
        crash(job, at_ns + SECOND_NS, tuple(range(job.num_ranks)))
        return Truth("setting", ("ibv_reg_mr",))
    host = job.rng.randrange(job.num_hosts)
    ranks = tuple(range(host * RANKS_PER_HOST, (host + 1) * RANKS_PER_HOST))
    for rank in ranks:
        text = _trace(job.rng, "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized")  # fmt: skip
        job.say(at_ns + rank, rank, text, level="ERROR")
    crash(job, at_ns + SECOND_NS, ranks)
    name = job.host_name(host)
    return Truth("setting", ("802",), ranks, (name,), name)


def preemption(job: Job, at_ns: int) -> Truth:
    """The scheduler takes the nodes."""
    if job.launcher == "slurm":
        why = job.rng.choice(("DUE TO TIME LIMIT", "DUE TO PREEMPTION"))
        name = job.host_name(0)
        text = f"slurmstepd: error: *** STEP 881234.0 ON {name} CANCELLED AT {{when}} {why} ***"
        job.of_host(at_ns, 0, text, "scheduler")
        return Truth("preemption", (why,))
    for host in range(job.num_hosts):
        text = "Received Signals.SIGTERM death signal, shutting down workers"
        job.of_host(at_ns + job.rng.randrange(10**8), host, text, "launcher")
        for local in range(RANKS_PER_HOST):
            pid = job.pid(host * RANKS_PER_HOST + local)
            job.of_host(at_ns + SECOND_NS, host, f"Sending process {pid} closing signal SIGTERM", "launcher")  # fmt: skip
    return Truth("preemption", ("SIGTERM",))


def nccl_version(job: Job, at_ns: int) -> Truth:
    """One host has another version of NCCL."""
    host = job.rng.randrange(job.num_hosts)
    for rank in range(job.num_ranks):
        if job.host_of(rank) == host:
            continue
        me = f"{job.host_name(job.host_of(rank))}:{job.pid(rank)}:{job.pid(rank) + 7} [{rank % 8}]"
        text = f"{me} misc/socket.cc:484 NCCL WARN socketStartConnect: connecting to address with family 0 is neither AF_INET(2) nor AF_INET6(10)"
        job.say(at_ns + job.rng.randrange(10**8), rank, text, "nccl", level="WARN")
    dead = tuple(r for r in range(job.num_ranks) if job.host_of(r) != host)
    crash(job, at_ns + SECOND_NS, dead)
    return Truth("setting", ("family 0",), dead, tuple(map(job.host_name, range(job.num_hosts))))


def gil(job: Job, at_ns: int) -> Truth:
    """A rank holds Python's lock for ever."""
    rank = _rank(job)
    others = [other for other in range(job.num_ranks) if other != rank]
    timed_out(job, at_ns + job.timeout_s * SECOND_NS, others)
    late_ns = at_ns + (job.timeout_s + 2) * SECOND_NS
    job.say(
        late_ns,
        rank,
        "Could not acquire GIL within 300 ms on exit, possible GIL induced hang",
        "c10d",
        level="ERROR",
    )
    if job.rng.random() < 0.5:
        job.say(
            late_ns + SECOND_NS,
            rank,
            f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",
            "c10d",
            level="ERROR",
        )
    for host in range(job.num_hosts):
        local = host * RANKS_PER_HOST
        launcher_fails(job, late_ns + 3 * SECOND_NS, host, local, -6)
    return _of_rank(job, "software", rank, "GIL", "watchdog got stuck")


def unknown(job: Job, at_ns: int) -> Truth:
    """All that is left are echoes."""
    if job.rng.random() < 0.5:
        timed_out(job, at_ns + job.timeout_s * SECOND_NS, range(job.num_ranks))
        for host in range(job.num_hosts):
            rank = host * RANKS_PER_HOST + job.rng.randrange(8)
            launcher_fails(job, at_ns + (job.timeout_s + 3) * SECOND_NS, host, rank, -6)
    else:
        for rank in range(job.num_ranks):
            text = f"[Rank {rank}] NCCL watchdog thread terminated with exception: NCCL error: unhandled system error, NCCL version 2.21.5\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error."
            job.say(at_ns + job.rng.randrange(3 * 10**9), rank, text, "c10d", level="ERROR")
        for host in range(job.num_hosts):
            launcher_fails(job, at_ns + 5 * SECOND_NS, host, host * RANKS_PER_HOST + 2, -6)
    return Truth("unknown", (), unknown=True)


CAUSES: dict[str, Callable[[Job, int], Truth]] = {
    each.__name__: each
    for each in (
        exception_one, exception_all, cuda_oom, xid, host_oom, loader, network, disk_full, stale_nfs,
        rank0_busy, config, preemption, nccl_version, gil, unknown,
    )
}  # fmt: skip
