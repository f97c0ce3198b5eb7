"""Settings that are wrong from the start: ports, limits, versions, drivers, firewalls."""

from __future__ import annotations

from sample_traces.logs.echoes import crash
from sample_traces.logs.entries import SECOND_NS, Job
from sample_traces.logs.failing import all_raise, dies, nccl_warns, traceback
from sample_traces.logs.truth import Truth, of_host, of_nobody, of_rank

# fmt: off
_IN_USE = "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
_FABRIC = "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized"
_SHM = "include/shm.h:42 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a1B2c3 (size 9637888)"
_MEMLOCK = "misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"
_FAMILY_0 = "misc/socket.cc:484 NCCL WARN socketStartConnect: connecting to address with family 0 is neither AF_INET(2) nor AF_INET6(10)"
# fmt: on


def port_in_use(job: Job, at_ns: int) -> Truth:
    """Rank 0 cannot open the port of the store."""
    dies(job, at_ns, 0, traceback(job.rng, _IN_USE))
    return of_rank(job, "setting", "fix_setting", 0, "EADDRINUSE", "address already in use")


def small_shm(job: Job, at_ns: int) -> Truth:
    """A host gives its container too little shared memory."""
    host = job.rng.randrange(job.num_hosts)
    for rank in job.ranks_of(host):
        nccl_warns(job, at_ns + rank, rank, _SHM)
    crash(job, at_ns + SECOND_NS, job.ranks_of(host))
    return of_host(job, "setting", "raise_limit fix_setting", host, "shared memory")


def memlock(job: Job, at_ns: int) -> Truth:
    """No rank may lock memory."""
    for rank in range(job.num_ranks):
        nccl_warns(job, at_ns + job.rng.randrange(10**8), rank, _MEMLOCK)
    crash(job, at_ns + SECOND_NS, range(job.num_ranks))
    return of_nobody("setting", "raise_limit fix_setting", "ibv_reg_mr")


def fabric(job: Job, at_ns: int) -> Truth:
    """A host's fabric manager does not run."""
    host = job.rng.randrange(job.num_hosts)
    all_raise(job, at_ns, job.ranks_of(host), _FABRIC)
    crash(job, at_ns + SECOND_NS, job.ranks_of(host))
    return of_host(job, "setting", "reset_gpu fix_setting cordon_node", host, "802")


def firewall(job: Job, at_ns: int) -> Truth:
    """A host's ports cannot be reached by the others."""
    host = job.rng.randrange(job.num_hosts)
    others = tuple(rank for rank in range(job.num_ranks) if job.host_of(rank) != host)
    for rank in others[:: job.rng.choice((1, 4))]:
        peer = f"{job.address(host)}<{job.rng.randrange(33_000, 60_000)}>"
        text = f"socketStartConnect: Connect to {peer} failed : No route to host"
        line = f"misc/socket.cc:425 NCCL WARN {text}"
        nccl_warns(job, at_ns + job.rng.randrange(10**8), rank, line)
    crash(job, at_ns + SECOND_NS, others)
    hosts = tuple(map(job.host_name, range(job.num_hosts)))
    return Truth("network", ("No route to host",), ("fix_setting",), others, hosts)


def nccl_version(job: Job, at_ns: int) -> Truth:
    """One host has another version of NCCL; the others cannot say which."""
    host = job.rng.randrange(job.num_hosts)
    others = tuple(rank for rank in range(job.num_ranks) if job.host_of(rank) != host)
    for rank in others:
        nccl_warns(job, at_ns + job.rng.randrange(10**8), rank, _FAMILY_0)
    crash(job, at_ns + SECOND_NS, others)
    node = (job.host_name(host),)  # naming those that complain would be wrong
    return Truth("setting", ("family 0",), ("fix_setting",), (), node)
