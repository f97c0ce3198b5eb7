"""Failures of machines: GPUs, memory of hosts, networks, storage, and schedulers that end jobs."""

from __future__ import annotations

from sample_traces.logs.echoes import crash
from sample_traces.logs.entries import RANKS_PER_HOST, SECOND_NS, Job
from sample_traces.logs.failing import all_raise, dies, nccl_warns, traceback
from sample_traces.logs.truth import Truth, of_host, of_nobody, of_rank

# fmt: off
_XIDS = (
    ("Xid (PCI:0000:{bus}:00): 79, pid={pid}, name=python, GPU has fallen off the bus.", "CUDA error: unknown error", "cordon_node"),
    ("Xid (PCI:0000:{bus}:00): 79, GPU has fallen off the bus.", "CUDA error: unspecified launch failure", "cordon_node"),
    ("Xid (PCI:0000:{bus}:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer", "CUDA error: uncorrectable ECC error encountered", "cordon_node"),
    ("Xid (PCI:0000:{bus}:00): 74, pid={pid}, name=python, NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", "CUDA error: uncorrectable NVLink error detected during the execution", "cordon_node"),
    ("Xid (PCI:0000:{bus}:00): 95, pid={pid}, name=python, Uncontained: FBHUB. RST: Yes, D-RST: No", "CUDA error: uncorrectable ECC error encountered", "reset_gpu"),
    ("Xid (PCI:0000:{bus}:00): 119, pid={pid}, name=python, Timeout after 6s of waiting for RPC response from GPU3 GSP! Expected function 76", "CUDA error: unknown error", "reset_gpu"),
    ("Xid (PCI:0000:{bus}:00): 31, pid={pid}, name=python, Ch 00000018, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC3", "CUDA error: an illegal memory access was encountered", "fix_code"),
    ("The NVIDIA GPU 0000:{bus}:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not responding to commands.", "CUDA error: unknown error", "cordon_node"),
)
_OOM_KILLED = (
    "Out of memory: Killed process {pid} (python) total-vm:412345678kB, anon-rss:231245678kB, file-rss:0kB, shmem-rss:1234kB, UID:1000 pgtables:512344kB oom_score_adj:0",
    "Memory cgroup out of memory: Killed process {pid} (python3.11) total-vm:212345678kB, anon-rss:131245678kB, file-rss:68kB, shmem-rss:0kB, UID:1000 pgtables:312344kB oom_score_adj:984",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/user.slice,task=python,pid={pid},uid=1000",
)
_COMPLETIONS = (
    "transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer {peer} with error 12, opcode 0, len 0, vendor err 129 (Recv) localGid ::ffff:10.1.2.3 remoteGids ::ffff:10.1.2.4",
    "net_ib.cc:808 NCCL WARN NET/IB : Got completion from peer {peer} with status=12 opcode=32698 len=32696 vendor err 129 (Send)",
)
_DISK_FULL = (
    "OSError: [Errno 28] No space left on device: '/checkpoints/step_900/rank.pt'",
    "OSError: [Errno 122] Disk quota exceeded",
    "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: \"No space left on device\" })",
    "RuntimeError: [enforce fail at inline_container.cc:857] . PytorchStreamWriter failed writing file data/322: file write failed",
)
_LOST_FILES = (
    "OSError: [Errno 116] Stale file handle: '/mnt/data/shards/00317.bin'",
    "RuntimeError: read(): fd 33 failed with Stale file handle",
    "OSError: [Errno 5] Input/output error: '/mnt/data/shards/00317.bin'",
)
# fmt: on
_LINK_DOWN = ("mlx5_core 0000:0c:00.0: Port: 1 Link DOWN", "mlx5_core 0000:5c:00.0 ib2: Link down")
_REPLACE = "cordon_node restart fix_setting"


def xid(job: Job, at_ns: int) -> Truth:
    """A GPU fails: the kernel says so, then the rank on it."""
    rank = job.any_rank()
    host = job.host_of(rank)
    line, error, advice = job.rng.choice(_XIDS)
    text = line.format(bus=job.rng.choice(("1b", "5d", "9a", "cb", "db")), pid=job.pid(rank))
    job.of_host(at_ns, host, f"NVRM: {text}", "kernel")
    if job.rng.random() < 0.4:
        other = f"NVRM: Xid (PCI:0000:5d:00): 45, pid={job.pid(rank)}, name=python, Ch 00000008"
        job.of_host(at_ns + SECOND_NS // 5, host, other, "kernel")
    shown = job.rng.choice(("torch.AcceleratorError", "RuntimeError")) + f": {error}"
    dies(job, at_ns + SECOND_NS // 2, rank, traceback(job.rng, shown), -6)
    says = text[:40], "fallen off the bus", "illegal memory"
    return of_rank(job, "hardware", advice, rank, *says)


def host_oom(job: Job, at_ns: int) -> Truth:
    """The kernel kills a rank."""
    rank = job.any_rank()
    text = job.rng.choice(_OOM_KILLED).format(pid=job.pid(rank))
    job.of_host(at_ns, job.host_of(rank), text, "kernel")
    crash(job, at_ns, (rank,), -9)
    return of_rank(job, "memory", "raise_limit", rank, text[:30])


def killed(job: Job, at_ns: int) -> Truth:
    """A rank gets SIGKILL and nobody says why; its launcher sees it end."""
    rank = job.any_rank()
    crash(job, at_ns, (rank,), -9)
    says = "SIGKILL", "-9", "exit code 9", "exit code 137"
    return of_rank(job, "memory", "raise_limit restart", rank, *says)


def network(job: Job, at_ns: int) -> Truth:
    """A link of a host fails: its card says so, or transfers from and to it fail."""
    host = job.rng.randrange(job.num_hosts)
    name = job.host_name(host)
    if job.rng.random() < 0.5:
        return _link_down(job, at_ns, host)
    ranks = [host * RANKS_PER_HOST + local for local in (0, 3)]
    others = [(host + 1) % job.num_hosts, (host - 1) % job.num_hosts]
    for rank, other in zip(ranks, others, strict=True):
        _completion(job, at_ns + job.rng.randrange(10**9), rank, other)
        peer = other * RANKS_PER_HOST + rank % RANKS_PER_HOST
        _completion(job, at_ns + 10**9, peer, host)
    crash(job, at_ns + SECOND_NS, tuple(ranks), -6)
    nodes = (name,) if job.num_hosts > 2 else tuple(job.host_name(h) for h in range(2))
    says = ("Got completion", "completed with error")
    node = name if job.num_hosts > 2 else ""
    return Truth("network", says, tuple(_REPLACE.split()), (), nodes, node)


def _completion(job: Job, at_ns: int, rank: int, other: int) -> None:
    peer = f"{job.address(other)}<{job.rng.randrange(33_000, 60_000)}>"
    nccl_warns(job, at_ns, rank, job.rng.choice(_COMPLETIONS).format(peer=peer))


def _link_down(job: Job, at_ns: int, host: int) -> Truth:
    ranks = [host * RANKS_PER_HOST + local for local in (0, 1)]
    if job.rng.random() < 0.5:
        job.of_host(at_ns, host, job.rng.choice(_LINK_DOWN), "kernel")
    else:
        for rank in ranks:
            text = "misc/ibvwrap.cc:262 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error"
            nccl_warns(job, at_ns, rank, text)
    for rank in ranks:
        _completion(job, at_ns + 20 * SECOND_NS, rank, (host + 1) % job.num_hosts)
    crash(job, at_ns + 21 * SECOND_NS, tuple(ranks), -6)
    return of_host(job, "network", _REPLACE, host, "Link down", "Link DOWN", "port error")


def disk_full(job: Job, at_ns: int) -> Truth:
    """A checkpoint does not fit on the disk."""
    rank = job.rng.choice((0, job.any_rank()))
    last = job.rng.choice(_DISK_FULL)
    job.say(at_ns - SECOND_NS, rank, "Saving checkpoint to /checkpoints/step_900", "log")
    dies(job, at_ns, rank, traceback(job.rng, last))
    says = "No space left", "quota exceeded", "PytorchStreamWriter"
    return of_rank(job, "storage", "raise_limit", rank, *says)


def stale_nfs(job: Job, at_ns: int) -> Truth:
    """All ranks of a host lose a file system, or one of them."""
    host = job.rng.randrange(job.num_hosts)
    ranks = job.ranks_of(host)
    if job.rng.random() < 0.4:
        ranks = (job.rng.choice(ranks),)
    all_raise(job, at_ns, ranks, job.rng.choice(_LOST_FILES))
    crash(job, at_ns + SECOND_NS, ranks)
    says = "Stale file handle", "Input/output"
    return of_host(job, "storage", "restart cordon_node", host, *says)


def preemption(job: Job, at_ns: int) -> Truth:
    """The scheduler takes the nodes."""
    if job.launcher == "slurm":
        why = job.rng.choice(("DUE TO TIME LIMIT", "DUE TO PREEMPTION"))
        name = job.host_name(0)
        text = f"slurmstepd: error: *** STEP 881234.0 ON {name} CANCELLED AT {{when}} {why} ***"
        job.of_host(at_ns, 0, text, "scheduler")
        return of_nobody("preemption", "restart raise_limit", why)
    for host in range(job.num_hosts):
        text = "Received Signals.SIGTERM death signal, shutting down workers"
        job.of_host(at_ns + job.rng.randrange(10**8), host, text, "launcher")
        for rank in job.ranks_of(host):
            text = f"Sending process {job.pid(rank)} closing signal SIGTERM"
            job.of_host(at_ns + SECOND_NS, host, text, "launcher")
    return of_nobody("preemption", "restart", "SIGTERM")


def node_failure(job: Job, at_ns: int) -> Truth:
    """A host is gone; Slurm notices minutes after its peers lost it."""
    job.launcher = "slurm"
    host = job.rng.randrange(job.num_hosts)
    name = job.host_name(host)
    crash(job, at_ns, job.ranks_of(host))
    late_ns = at_ns + job.rng.randrange(60, 200) * SECOND_NS
    step = f"STEP 881234.0 ON {job.host_name(0)} CANCELLED AT {{when}} DUE TO NODE FAILURE"
    text = f"slurmstepd: error: *** {step}, SEE SLURMCTLD LOG FOR DETAILS ***"
    job.of_host(late_ns, 0, f"srun: error: Node failure on {name}", "scheduler")
    job.of_host(late_ns, 0, text, "scheduler")
    return of_host(job, "hardware", "cordon_node", host, "Node failure", "NODE FAILURE")
