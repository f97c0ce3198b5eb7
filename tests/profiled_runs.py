"""Runs imported from files of torch.profiler whose operations have shapes."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.readers.kineto.profiler_files import GPU, Json, event, flow, step, write

H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
MM = {
    "Input Dims": [[4096, 4096], [4096, 4096]],
    "Input type": ["c10::BFloat16", "c10::BFloat16"],
}
"""Arguments of a product of two matrices: 137.4 GFLOP, 100.7 MB."""


def products(kernel_us: float, num: int = 10, args: Json = MM) -> list[Json]:
    """Products of matrices in step 7, each a kernel."""
    events = [step(7, 0, 10_000)]
    for number in range(num):
        at = 1000.0 * number
        events += [
            event("aten::mm", at + 1, 10, args=args),
            event("gemm", at + 20, kernel_us, "kernel"),
            flow("s", number + 1, at + 3),
            flow("f", number + 1, at + 20, **GPU),
        ]
    return events


def profiled_job(folder: Path) -> Path:
    """Files of 4 ranks; the kernels of rank 2 take 260 us, those of the others 200 to 203."""
    for rank in range(4):
        events = products(260 if rank == 2 else 200 + rank)
        info = {"rank": rank, "world_size": 4}
        name = folder / f"rank{rank}.json"
        write(name, events, rank, deviceProperties=H100, distributedInfo=info)
    return folder
