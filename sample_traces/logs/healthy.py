"""What a job writes while all is well: start, steps, warnings, errors that somebody handles."""

from __future__ import annotations

from collections.abc import Collection

from sample_traces.logs.entries import RANKS_PER_HOST, SECOND_NS, Job

_HARMLESS = (
    "UserWarning: The given NumPy array is not writable, and PyTorch does not support non-writable"
    " tensors.",
    "FutureWarning: You are using `torch.load` with `weights_only=False`.",
    "Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any"
    " unused parameters in the forward pass.",
    "Token indices sequence length is longer than the specified maximum sequence length for this"
    " model (9213 > 8192). Running this sequence through the model will result in indexing errors",
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid"
    " your system being overloaded",
    "torch.distributed: using the CUDA caching allocator; if the job fails, this might be caused by"
    " an out of memory error on another rank",
    "Failed to establish a new connection to the metrics server: retrying in 5 s",
    "gradient norm 14.2 is larger than 10, clipped",
)

_HANDLED = (
    "WARNING: could not import flash_attn, falling back to scaled_dot_product_attention\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/train/model/attention.py", line 14, in <module>\n'
    "    import flash_attn\n"
    "ModuleNotFoundError: No module named 'flash_attn'",
    "apex is not installed; using torch.optim.AdamW",
    "Retry 1/5 of shard 00219 after an error:\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/train/data/remote.py", line 88, in fetch\n'
    "    body = response.read(length)\n"
    '  File "/usr/lib/python3.11/http/client.py", line 473, in read\n'
    "    s = self._safe_read(self.length)\n"
    "http.client.IncompleteRead: IncompleteRead(16384 bytes read, 1032192 more expected)",
    "wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response [500]>)",
    "Skipping a sample that cannot be decoded:\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/train/data/images.py", line 41, in decode\n'
    "    image.load()\n"
    "OSError: image file is truncated (12 bytes not processed)",
)


_CAUGHT = (
    "metrics could not be sent\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/train/metrics.py", line 31, in send\n'
    "    response.raise_for_status()\n"
    "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url",
    "shard 00219 has an empty row\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/train/data/rows.py", line 17, in parse\n'
    "    label = row['label']\n"
    "KeyError: 'label'",
)
"""Errors that somebody catches and logs; the rank goes on."""

_IGNORED = (
    "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7ff33771e5e0>\n"
    "Traceback (most recent call last):\n"
    '  File "/usr/local/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1328, in'
    " __del__\n"
    "    self._shutdown_workers()\n"
    "AssertionError: can only test a child process"
)
_FOREIGN = (
    "chrome[{pid}]: segfault at 10 ip 00007f12 sp 00007ffd error 4 in libc.so.6[7f12+5000]",
    "pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer",
    "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE",
)
"""What kernels log that has nothing to do with the job."""
_SAMPLE = "TypeError: unsupported operand type(s) for +: 'int' and 'str'"


def start(job: Job) -> None:
    """Lines of the first minute."""
    for host in range(job.num_hosts):
        job.of_host(
            job.start_ns - 8 * SECOND_NS,
            host,
            "Starting elastic_operator with launch configs: entrypoint train.py",
            "launcher",
        )
        job.of_host(
            job.start_ns - 86_400 * SECOND_NS * job.rng.randrange(1, 5),
            host,
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01",
            "kernel",
        )
        if job.rng.random() < 0.2:  # of a job before
            job.of_host(
                job.start_ns - 7_200 * SECOND_NS,
                host,
                "NVRM: Xid (PCI:0000:5d:00): 31, pid=9911, name=python, Ch 0000000b",
                "kernel",
            )
        if job.rng.random() < 0.3:
            text = job.rng.choice(_FOREIGN).format(pid=job.rng.randrange(2_000, 9_000))
            job.of_host(job.start_ns + job.rng.randrange(300) * SECOND_NS, host, text, "kernel")
    for rank in range(job.num_ranks):
        _start_of(job, rank)


def _start_of(job: Job, rank: int) -> None:
    name, pid, device = job.host_name(job.host_of(rank)), job.pid(rank), rank % RANKS_PER_HOST
    at_ns = job.start_ns + rank * 10**6
    job.say(at_ns, rank, f"rank {rank} of {job.num_ranks} on {name}, device {device}", "log")
    if job.has_nccl_info:
        who = f"{name}:{pid}:{pid} [{device}]"
        address = job.address(job.host_of(rank))
        job.say(at_ns + 10**9, rank, f"{who} NCCL INFO Bootstrap : Using eth0:{address}<0>")
        job.say(at_ns + 2 * 10**9, rank, f"{who} NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]")
        job.say(
            at_ns + 3 * 10**9, rank, f"{who} NCCL INFO ncclCommInitRank comm 0x55d3 Init COMPLETE"
        )
    if job.rng.random() < 0.3:
        job.say(at_ns + 4 * 10**9, rank, job.rng.choice(_HARMLESS), "log", level="WARNING")
    if job.rng.random() < 0.15:
        job.say(at_ns + 20 * 10**9, rank, job.rng.choice(_HANDLED), "log", level="WARNING")


def steps(job: Job, until_ns: int, skip: frozenset[int] = frozenset()) -> None:
    """A line per step of some ranks, until a time; `skip`: ranks that write none at the end."""
    speaking = range(job.num_ranks) if job.rng.random() < 0.6 else (0, job.num_ranks - 1)
    step_ns = job.rng.randrange(4, 12) * SECOND_NS
    at_ns, step = job.start_ns + 30 * SECOND_NS, 0
    while at_ns < until_ns:
        for rank in speaking:
            if rank in skip and at_ns > until_ns - 3 * step_ns:
                continue
            loss = 2.0 + 8.0 / (step + 1)
            text = f"step {step} | loss {loss:.4f} | lr 3.0e-4 | {step_ns / 1e6:.1f} ms/step"
            job.say(at_ns + rank * 1000, rank, text, "log", stream="stdout")
        _say_traps(job, at_ns + step_ns // 3, speaking)
        at_ns, step = at_ns + step_ns, step + 1


def _say_traps(job: Job, at_ns: int, speaking: Collection[int]) -> None:
    """Now and then something that looks like a failure, of a rank that goes on."""
    rank = job.rng.choice(list(speaking))
    if job.rng.random() < 0.02:
        job.say(at_ns, rank, job.rng.choice(_CAUGHT), "log", level="ERROR")
    if job.rng.random() < 0.01:
        job.say(at_ns, rank, _IGNORED, "none")
    if job.rng.random() < 0.01:
        job.say(at_ns, rank, _SAMPLE, "none", stream="stdout")
