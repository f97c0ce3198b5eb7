"""A small data-parallel job over gloo whose loader can have a fault (faults.py).

torchrun --nproc-per-node 4 benchmarks/loaders/job.py FAULT_AS_JSON WORKERS fork|spawn

Each rank draws its samples from a mixture of three sources. A sample is read from a file and goes
through a marked transform; a batch has sequences of different lengths, which attend to themselves.
Most of what an accelerator would compute is slept. Each rank states how far a standby loader is
behind, as if it had one.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import ConcatDataset, DataLoader, Dataset

import trace_hooks as th
from benchmarks.loaders.faults import KINDS, SOURCES, Fault
from sample_traces.jobs.model import mixed_values

BATCH, SAMPLES = 8, 1 << 20
COMPUTE_S = 0.12
STORAGE_BYTES = 32 << 10
DOSE = 1.6
"""A slow worker needs so many times as long for a batch as all workers together have."""

LEAK_BYTES = 300_000
LONGER = 8
LAG_A_STEP = 6
"""Samples that a standby loader loses each step."""

WIDTH, VOCABULARY = 32, 97


class Source(Dataset[tuple[torch.Tensor, str]]):
    """Samples of one source."""

    def __init__(self, name: str, rank: int, fault: Fault, num_workers: int, path: Path) -> None:
        self.source = name
        share = SOURCES[name] if fault.kind == "source" else 1.0
        self._slow_s = DOSE * num_workers * COMPUTE_S / (BATCH * share)
        self._rank, self._fault, self._path = rank, fault, path
        self._kept: list[bytes] = []

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, str]:
        # one number after the other: a sample knows its step
        step = index // BATCH
        self._read(step)
        with th.transform("tokenize"):
            self._wait("transform", step)
            length = random.Random(index).randint(64, 192) * (
                LONGER if self._is_on("long", step) else 1
            )
            tokens = torch.full((length,), index % VOCABULARY)
        return tokens, self.source

    def _read(self, step: int) -> None:
        data = self._path.read_bytes()
        info = torch.utils.data.get_worker_info()
        if info is not None and info.id == self._fault.worker:
            self._wait("worker", step)
        self._wait("storage", step)
        if self.source == self._fault.source:
            self._wait("source", step, of_all=True)
        if self._is_on("leak", step):
            self._kept.append(bytes(bytearray(data * (LEAK_BYTES // len(data)))))

    def _wait(self, kind: str, step: int, of_all: bool = False) -> None:
        if self._is_on(kind, step, of_all):
            time.sleep(self._slow_s)

    def _is_on(self, kind: str, step: int, of_all: bool = False) -> bool:
        fault = self._fault
        is_here = of_all or fault.rank == self._rank
        return fault.kind == kind and is_here and step >= fault.first_step


class Drawn:
    """Batches of indices: the source of each sample is drawn, its number follows from the step."""

    def __init__(self, rank: int, steps: int, fault: Fault) -> None:
        self._rank, self._steps, self._fault = rank, steps, fault

    def __iter__(self) -> Iterator[list[int]]:
        chance, names = random.Random(self._rank), list(SOURCES)
        for step in range(self._steps):
            shares = dict(SOURCES)
            if self._fault.kind == "mix":
                shares[self._fault.source] /= 5
            drawn = chance.choices(range(len(names)), [shares[name] for name in names], k=BATCH)
            yield [source * SAMPLES + step * BATCH + place for place, source in enumerate(drawn)]

    def __len__(self) -> int:
        return self._steps


class Attention(torch.nn.Module):
    """Sequences of a row that see only themselves; their `lengths` are set before each forward."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []

    def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
        """(1, T, 3 WIDTH) -> (1, T, WIDTH)."""
        query, key, value = x_BTD[:, None].chunk(3, dim=-1)
        return mixed_values(query, key, value, [self.lengths])[:, 0]


def standby_lag(fault: Fault, rank: int, step: int) -> int:
    """Samples that the standby loader of a rank is behind."""
    is_behind = fault.kind == "standby" and rank == fault.rank and step >= fault.first_step
    lost = LAG_A_STEP * (step - fault.first_step) if is_behind else 0
    return random.Random(f"{rank} {step}").randint(2, 14) + lost


def collated(samples: list[tuple[torch.Tensor, str]]) -> dict[str, Any]:
    """Tokens one sequence after the other (1, T), lengths and sources."""
    tokens = torch.cat([one for one, _ in samples])[None]
    lengths = [len(one) for one, _ in samples]
    return {"input_ids": tokens, "lengths": lengths, "sources": [source for _, source in samples]}


def main() -> None:
    fault = Fault(**json.loads(sys.argv[1]))
    num_workers, context = int(sys.argv[2]), sys.argv[3]
    steps = KINDS[fault.kind].steps if fault.kind else 150
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample"
        path.write_bytes(bytes(STORAGE_BYTES))
        train(fault, rank, steps, num_workers, context, path)
    dist.destroy_process_group()


def train(fault: Fault, rank: int, steps: int, num_workers: int, context: str, path: Path) -> None:
    """All steps."""
    attention = Attention()
    model = torch.nn.Sequential(
        torch.nn.Embedding(VOCABULARY, 3 * WIDTH), attention, torch.nn.Linear(WIDTH, VOCABULARY)
    )
    tracer = th.start(model=model, layout={"dp": dist.get_world_size()})
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.1)
    mixture = ConcatDataset([Source(name, rank, fault, num_workers, path) for name in SOURCES])
    loader = DataLoader(
        mixture,
        batch_sampler=Drawn(rank, steps, fault),  # type: ignore[arg-type]
        collate_fn=collated,
        num_workers=num_workers,
        multiprocessing_context=context,
    )
    for step, batch in enumerate(loader):
        with tracer.step():
            tracer.batch(lengths=batch["lengths"], source=batch["sources"], planned=SOURCES)
            tracer.standby(lag_samples=standby_lag(fault, rank, step))
            attention.lengths = batch["lengths"]
            logits = replica(batch["input_ids"])
            time.sleep(COMPUTE_S)
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), batch["input_ids"].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tracer.log(loss=loss)
    tracer.stop()


if __name__ == "__main__":
    main()
