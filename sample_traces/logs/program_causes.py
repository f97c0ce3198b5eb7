"""Failures of the program: exceptions, memory of the GPU, loaders, numbers, native code."""

from __future__ import annotations

from sample_traces.logs import wording
from sample_traces.logs.echoes import crash, launcher_fails, timed_out
from sample_traces.logs.entries import RANKS_PER_HOST, SECOND_NS, Job
from sample_traces.logs.failing import all_raise, dies, traceback
from sample_traces.logs.truth import Truth, of_host, of_nobody, of_rank

# fmt: off
_CUDA_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {device} has a total capacity of 79.11 GiB of which 1.20 GiB is free. Process 41203 has 77.90 GiB memory in use. Of the allocated memory 70.11 GiB is allocated by PyTorch, and 5.31 GiB is reserved by PyTorch but unallocated.",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB (GPU {device}; 39.39 GiB total capacity; 36.02 GiB already allocated; 510.31 MiB free; 37.40 GiB reserved in total by PyTorch)",
    "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
)
_LOADER = (
    "RuntimeError: DataLoader worker (pid 58211) is killed by signal: Killed. ",
    "RuntimeError: DataLoader worker (pid(s) 58211, 58212) exited unexpectedly",
    "RuntimeError: DataLoader worker (pid 58211) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
    "RuntimeError: DataLoader worker (pid 58211) is killed by signal: Segmentation fault. ",
)
_NUMBERS = (
    "AssertionError: Rank {rank}: found NaN in local grad norm in backward pass before data-parallel communication collective. Device: {device}, node: gpu-node",
    "FloatingPointError: Loss is nan at step 900",
    "RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.",
    "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
)
_MISSING = (
    "ModuleNotFoundError: No module named 'transformer_engine'",
    "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory",
    "ImportError: /usr/local/lib/python3.11/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEa",
)
_CORRUPT = (
    "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    "_pickle.UnpicklingError: pickle data was truncated",
)
# fmt: on


def exception_one(job: Job, at_ns: int) -> Truth:
    """A rank raises; the others lose it."""
    rank, last = job.any_rank(), wording.exception(job.rng)
    text = traceback(job.rng, last)
    if job.rng.random() < 0.25:
        text = (
            f"{text}\n\nDuring handling of the above exception, another exception occurred:\n\n"
            + traceback(job.rng, "RuntimeError: training step failed, see above")
        )
    dies(job, at_ns, rank, text)
    return of_rank(job, "user_code", "fix_code", rank, last[:60])


def exception_all(job: Job, at_ns: int) -> Truth:
    """Every rank raises the same in the same seconds."""
    last = wording.exception(job.rng)
    all_raise(job, at_ns, range(job.num_ranks), last)
    for host in range(job.num_hosts):
        rank = host * RANKS_PER_HOST + job.rng.randrange(8)
        launcher_fails(job, at_ns + 3 * SECOND_NS, host, rank, 1)
    return of_nobody("user_code", "fix_code", last[:60])


def import_error(job: Job, at_ns: int) -> Truth:
    """A module or library is missing on one host."""
    host, last = job.rng.randrange(job.num_hosts), job.rng.choice(_MISSING)
    all_raise(job, at_ns, job.ranks_of(host), last)
    crash(job, at_ns + SECOND_NS, job.ranks_of(host))
    return of_host(job, "software", "fix_code fix_setting", host, last[:40])


def cuda_oom(job: Job, at_ns: int) -> Truth:
    """A rank runs out of the GPU's memory."""
    rank = job.any_rank()
    last = job.rng.choice(_CUDA_OOM).format(device=rank % RANKS_PER_HOST)
    dies(job, at_ns, rank, traceback(job.rng, last))
    return of_rank(job, "memory", "fix_code", rank, "out of memory", "ALLOC_FAILED")


def loader(job: Job, at_ns: int) -> Truth:
    """A process of a rank's data loader dies."""
    rank, last = job.any_rank(), job.rng.choice(_LOADER)
    dies(job, at_ns, rank, traceback(job.rng, last))
    advice = "fix_code" if "Segmentation" in last else "raise_limit"
    return of_rank(job, "memory", advice, rank, "DataLoader worker")


def not_a_number(job: Job, at_ns: int) -> Truth:
    """A check of a rank finds numbers that are none."""
    rank = job.any_rank()
    last = job.rng.choice(_NUMBERS).format(rank=rank, device=rank % RANKS_PER_HOST)
    dies(job, at_ns, rank, traceback(job.rng, last))
    return of_rank(job, "numerics", "fix_code", rank, "nan")


def checkpoint_corrupt(job: Job, at_ns: int) -> Truth:
    """A file of weights is damaged: for the rank whose part it is, or for all."""
    last = job.rng.choice(_CORRUPT)
    if job.rng.random() < 0.5:
        rank = job.any_rank()
        dies(job, at_ns, rank, traceback(job.rng, last))
        return of_rank(job, "storage", "restart fix_code", rank, last[:40])
    all_raise(job, at_ns, range(job.num_ranks), last)
    crash(job, at_ns + 2 * SECOND_NS, range(job.num_ranks))
    return of_nobody("storage", "restart fix_code", last[:40])


def segfault(job: Job, at_ns: int) -> Truth:
    """Native code of a rank crashes: Python says where, the kernel, or the launcher alone."""
    rank, form = job.any_rank(), job.rng.randrange(3)
    if form == 0:
        stack = 'Thread 0x00007f3a (most recent call first):\n  File "/opt/train/loop.py", line 77'
        job.say(at_ns, rank, f"Fatal Python error: Segmentation fault\n\n{stack} in step")
    elif form == 1:
        where = "ip 00007f12 sp 00007ffd error 4 in _C.so[7f12+5000]"
        text = f"python[{job.pid(rank)}]: segfault at 10 {where}"
        job.of_host(at_ns, job.host_of(rank), text, "kernel")
    crash(job, at_ns, (rank,), -11)
    told = ("Segmentation fault", "segfault at", "SIGSEGV", "-11", "exit code 11")
    return of_rank(job, "software", "fix_code", rank, *told)


def gil(job: Job, at_ns: int) -> Truth:
    """A rank holds Python's lock for ever."""
    rank = job.any_rank()
    timed_out(
        job, at_ns + job.timeout_s * SECOND_NS, [o for o in range(job.num_ranks) if o != rank]
    )
    late_ns = at_ns + (job.timeout_s + 2) * SECOND_NS
    text = "Could not acquire GIL within 300 ms on exit, possible GIL induced hang"
    job.say(late_ns, rank, text, "c10d", level="ERROR")
    if job.rng.random() < 0.5:
        text = (
            f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] ProcessGroupNCCL's watchdog got stuck for"
            " 480 seconds without making progress in monitoring enqueued collectives."
        )
        job.say(late_ns + SECOND_NS, rank, text, "c10d", level="ERROR")
    for host in range(job.num_hosts):
        launcher_fails(job, late_ns + 3 * SECOND_NS, host, host * RANKS_PER_HOST, -6)
    return of_rank(job, "software", "fix_code", rank, "GIL", "watchdog got stuck")
