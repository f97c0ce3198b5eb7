"""Processes of one database become ranks, in the order of their GPUs."""

from __future__ import annotations

from pathlib import Path

from ingest.readers.tables.process_ranks import Processes
from ingest.run_folder.run_writer import RunWriter


def _processes(*gpus: int) -> Processes:
    processes = Processes("file")
    for pid, gpu in enumerate(gpus, 100):
        processes.of(pid).add(1_000, 10, "kernel", "k", "GPU")
        if gpu >= 0:
            processes.uses_gpu(pid, gpu)
    return processes


def test_those_with_a_gpu_come_in_its_order() -> None:
    assert _processes(3, -1, 0).ranks() == [102, 100]


def test_without_any_gpu_all_with_spans_come() -> None:
    processes = _processes(-1, -1)
    processes.of(7)
    assert processes.ranks() == [100, 101]


def test_they_are_written_from_the_first_rank_on(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    writer, processes = RunWriter(tmp_path), _processes(1, 0)
    processes.add_step(100, 5, 900, 2_000)
    processes.write(writer, 4, int)
    assert {rank: info["pid"] for rank, info in writer.ranks.items()} == {4: 101, 5: 100}
    assert writer.ranks[5]["device"] == "GPU 1"
    assert writer.found.guesses == [
        "file names no ranks: its processes are shown as ranks 4 to 5, by their GPU"
    ]
    assert [p.name for p in (tmp_path / "segments").glob("steps-*")] == [
        "steps-0000-00005-00000000.parquet"
    ]
