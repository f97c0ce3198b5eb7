"""Templates of lines of logs (trace_hooks/log_text/templates.py) compared with those of drain3.

pip install --no-deps --target DRAIN drain3==0.9.11 jsonpickle==1.5.1 cachetools==4.2.1
PYTHONPATH=DRAIN python benchmarks/log_templates.py [--seeds 2]

Each line gets a group from each of them: equal templates are one group. Printed are the adjusted
Rand index of two groupings (1: the same, 0: as good as chance) and the share of pairs of lines in
one group that the other has in one group, too (precision, recall), over distinct lines:
- lines of generated jobs (sample_traces/logs), where nobody knows the right groups;
- lines of PyTorch, NCCL, launchers, kernels and training scripts made here from known patterns,
  whose numbers, names, addresses and paths vary: there both are compared with the truth, too.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from math import comb

from sample_traces.logs.generate import KINDS, failed_job
from trace_hooks.log_text.templates import template_of

PATTERNS = (
    "step {n} loss {f} lr {e} tokens/s {n}",
    "iteration {n}/ {n} | consumed samples: {n} | elapsed time per iteration (ms): {f} | loss {e}",
    "saving checkpoint to {path}",
    "checkpoint {path} saved in {f} s",
    "loaded {n} samples from {path}",
    "epoch {n} begins",
    "epoch {n} ends after {f} minutes",
    "eval accuracy {f} at step {n}",
    "{host}:{n}:{n} [{d}] NCCL INFO Bootstrap : Using eth0:{ip}<0>",
    "{host}:{n}:{n} [{d}] NCCL INFO Channel {n}/0 : {n}[{d}] -> {n}[{d}] via P2P/IPC",
    "{host}:{n}:{n} [{d}] NCCL INFO comm {hex} rank {n} nranks {n} cudaDev {d} - Init COMPLETE",
    "{host}:{n}:{n} [{d}] net_ib.cc:{n} NCCL WARN NET/IB: Got completion from peer {ip}<{port}>",
    "{host}:{n}:{n} [{d}] misc/socket.cc:{n} NCCL WARN socketProgress: Connection closed by {ip}",
    "[Rank {n}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n}, "
    "OpType=ALLREDUCE, NumelIn={n}, Timeout(ms)={n}) ran for {n} milliseconds before timing out.",
    "[Rank {n}] Timeout at NCCL work: {n}, last enqueued NCCL work: {n}, last completed: {n}.",
    "[PG ID {d} PG GUID {n} Rank {n}] Received a dump signal from this local rank",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {f} GiB. GPU {d} has a total "
    "capacity of {f} GiB of which {f} MiB is free.",
    "RuntimeError: The size of tensor a ({n}) must match the size of tensor b ({n})",
    "Sending process {n} closing signal SIGTERM",
    "failed (exitcode: {d}) local_rank: {d} (pid: {n}) of binary: {path}",
    "NVRM: Xid (PCI:0000:{h2}:00): 79, pid={n}, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:{h2}:00): 31, pid={n}, name=python, Ch {h8}",
    "Out of memory: Killed process {n} (python) total-vm:{n}kB, anon-rss:{n}kB",
    "mlx5_core 0000:{h2}:00.0: Port: {d} Link DOWN",
    "slurmstepd: error: Detected {d} oom_kill event in StepId={n}.{d}",
    "srun: error: {host}: task {n}: Exited with exit code {d}",
    "request {uuid} took {f} s",
    "retry {d}/5 of {path} after an error",
    "gradient norm {f} is larger than {d}, clipped",
    "{d}%|#####| {n}/{n} [{clock}<{clock}, {f}it/s]",
    "rank {n} of {n} on {host}, device {d}",
    "peer {ip}:{port} closed the connection",
    "worker {n} started with seed {n}",
    "worker {n} stopped",
    "lm_head norm {f} id {h16}",
    "attn_out norm {f} id {h16}",
)
PER_PATTERN = 12

Group = Sequence[object]


def varied(pattern: str, rng: random.Random) -> str:
    """A line of a pattern."""
    makers: dict[str, Callable[[], str]] = {
        "n": lambda: str(rng.randrange(10 ** rng.randrange(1, 7))),
        "d": lambda: str(rng.randrange(1, 10)),
        "f": lambda: f"{rng.random() * 100:.{rng.randrange(1, 5)}f}",
        "e": lambda: f"{rng.random():.3e}",
        "host": lambda: f"gpu-node{rng.randrange(200):03d}",
        "ip": lambda: f"10.{rng.randrange(250)}.{rng.randrange(250)}.{rng.randrange(1, 250)}",
        "port": lambda: str(rng.randrange(1024, 60_000)),
        "hex": lambda: f"0x{rng.getrandbits(48):x}",
        "h2": lambda: f"{rng.getrandbits(8):02x}",
        "h8": lambda: f"{rng.getrandbits(32):08x}",
        "h16": lambda: f"{rng.getrandbits(64):016x}",
        "uuid": lambda: "-".join(f"{rng.getrandbits(4 * n):0{n}x}" for n in (8, 4, 4, 4, 12)),
        "path": lambda: (
            f"/data/run{rng.randrange(99)}/{rng.choice(_NAMES)}/part-{rng.random():.4f}"
        ),
        "clock": lambda: f"{rng.randrange(60):02d}:{rng.randrange(60):02d}",
    }
    parts = pattern.split("{")
    filled = [parts[0]]
    for part in parts[1:]:
        name, _, rest = part.partition("}")
        filled.append(makers[name]() + rest)
    return "".join(filled)


_NAMES = ("train", "valid", "shards", "ckpt", "tmp")


def ours(lines: Sequence[str]) -> list[object]:
    """Templates of this repository."""
    return [template_of(line) for line in lines]


def drain3s(lines: Sequence[str], is_masked: bool) -> list[object]:
    """Numbers of drain3's clusters at the end, with its defaults; `is_masked`: with the masks that
    its documentation proposes (addresses, hexadecimal ids, numbers).
    """
    from drain3 import TemplateMiner
    from drain3.masking import MaskingInstruction
    from drain3.template_miner_config import TemplateMinerConfig

    config = TemplateMinerConfig()
    if is_masked:
        start, end = r"((?<=[^A-Za-z0-9])|^)", r"((?=[^A-Za-z0-9])|$)"
        config.masking_instructions = [
            MaskingInstruction(rf"{start}(\d{{1,3}}\.\d{{1,3}}\.\d{{1,3}}\.\d{{1,3}}){end}", "IP"),
            MaskingInstruction(rf"{start}([0-9a-f]{{6,}} ?){{3,}}{end}", "SEQ"),
            MaskingInstruction(rf"{start}(0x[a-f0-9A-F]+){end}", "HEX"),
            MaskingInstruction(rf"{start}([\-\+]?\d+){end}", "NUM"),
        ]
    miner = TemplateMiner(config=config)
    return [miner.add_log_message(line)["cluster_id"] for line in lines]


def agreement(ours_N: Group, theirs_N: Group) -> tuple[float, float, float]:
    """Adjusted Rand index, and the shares of pairs of the one that are pairs of the other, both
    ways (N lines).
    """
    both = sum(comb(n, 2) for n in Counter(zip(ours_N, theirs_N, strict=True)).values())
    one = sum(comb(n, 2) for n in Counter(ours_N).values())
    other = sum(comb(n, 2) for n in Counter(theirs_N).values())
    by_chance = one * other / comb(len(ours_N), 2)
    index = (both - by_chance) / ((one + other) / 2 - by_chance)
    return index, both / one, both / other


def generated_lines(num_seeds: int) -> list[str]:
    """Distinct first lines of what processes of generated jobs write."""
    jobs = [failed_job(kind, seed)[0] for kind in KINDS for seed in range(num_seeds)]
    texts = (entry.text.split("\n", 1)[0] for job in jobs for entry in job.entries)
    return list(dict.fromkeys(texts))


def _row(name: str, one: Group, other: Group) -> str:
    index, precision, recall = agreement(one, other)
    f1 = 2 * precision * recall / (precision + recall)
    return (
        f"| {name} | {len(set(one))} | {len(set(other))} | {index:.3f} | {f1:.3f} | "
        f"{precision:.3f} | {recall:.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    num_seeds = parser.parse_args().seeds
    generated = generated_lines(num_seeds)
    rng = random.Random(4711)
    made = [(varied(pattern, rng), pattern) for pattern in PATTERNS for _ in range(PER_PATTERN)]
    rng.shuffle(made)
    lines, truth = [line for line, _ in made], [pattern for _, pattern in made]
    print(f"{len(generated):,} generated lines, {len(lines):,} of {len(PATTERNS)} patterns")
    print("| compared | groups | groups | ARI | F1 | precision | recall |")
    print("|---|---|---|---|---|---|---|")
    for is_masked in (True, False):
        name = "drain3 with masks" if is_masked else "drain3"
        print(_row(f"generated: ours, {name}", ours(generated), drain3s(generated, is_masked)))
        print(_row(f"patterns: ours, {name}", ours(lines), drain3s(lines, is_masked)))
        print(_row(f"patterns: {name}, truth", drain3s(lines, is_masked), truth))
    print(_row("patterns: ours, truth", ours(lines), truth))
    for name, group in (("ours", ours), ("drain3", lambda texts: drain3s(texts, True))):
        begun_s = time.process_time()
        group(generated)
        spent_s = time.process_time() - begun_s
        print(f"{name}: {spent_s / len(generated) * 1e6:.1f} µs of CPU per line")


if __name__ == "__main__":
    main()
