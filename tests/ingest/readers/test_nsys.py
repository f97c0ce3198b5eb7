"""Nsight Systems databases: small ones made here, and real ones."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.folders import NO_TRACES, TRACES
from tests.reader_results import Imported

UTC_NS, START_NS = 1779782330176752435, 28254349605
PROCESS = (1 << 48) | (144 << 24)


def database(path: Path, tables: dict[str, tuple[str, list[tuple[Any, ...]]]]) -> Path:
    """A database of tables: name -> (columns, rows)."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    for name, (columns, rows) in tables.items():
        connection.execute(f'CREATE TABLE "{name}" ({columns})')
        marks = ", ".join("?" * len(columns.split(",")))
        connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
    connection.commit()
    connection.close()
    return path


KERNELS = '"start", "end", deviceId, streamId, globalPid, shortName, demangledName'

COPIES = '"start", "end", deviceId, streamId, globalPid, bytes, copyKind'


def nsys_tables() -> dict[str, tuple[str, list[tuple[Any, ...]]]]:
    other = PROCESS + (1 << 24)
    return {
        "StringIds": (
            "id, value",
            [(1, "gemm"), (2, "ncclDevKernel_AllReduce"), (3, "cudaLaunch")],
        ),
        "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", [(UTC_NS,)]),
        "ANALYSIS_DETAILS": ("startTime", [(START_NS,)]),
        "TARGET_INFO_SYSTEM_ENV": ("name, value", [("Hostname", "node7")]),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            KERNELS,
            [
                (START_NS + 100, START_NS + 150, 1, 7, PROCESS, 1, 1),
                (START_NS + 120, START_NS + 170, 1, 7, PROCESS, 1, 1),
                (START_NS + 200, START_NS + 260, 0, 9, other, 2, 2),
            ],
        ),
        "CUPTI_ACTIVITY_KIND_MEMCPY": (
            COPIES,
            [(START_NS + 300, START_NS + 310, 1, 7, PROCESS, 4096, 1)],
        ),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (
            '"start", "end", globalTid, nameId',
            [(START_NS + 90, START_NS + 95, PROCESS + 145, 3)],
        ),
        "NVTX_EVENTS": (
            '"start", "end", eventType, globalTid, text, textId',
            [
                (START_NS + 80, START_NS + 400, 59, PROCESS + 144, "ProfilerStep#7", None),
                (START_NS + 85, START_NS + 99, 59, PROCESS + 144, "aten::mm, op_id = 5", None),
                (START_NS + 86, START_NS + 98, 60, PROCESS + 144, None, 1),
                (START_NS + 87, None, 59, PROCESS + 144, "open", None),
                (START_NS + 87, None, 34, PROCESS + 144, "mark", None),
            ],
        ),
    }


def test_a_report_without_a_column_and_without_names(tmp_path: Path, runs: Path) -> None:
    tables = nsys_tables()
    del tables["StringIds"]
    columns, rows = tables["CUPTI_ACTIVITY_KIND_RUNTIME"]
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"] = columns.removesuffix(", nameId"), [r[:-1] for r in rows]
    run = Imported(database(tmp_path / "a.sqlite", tables), into=runs)
    assert [problem.partition(": ")[2] for problem in run.problems[:2]] == [
        "table CUPTI_ACTIVITY_KIND_RUNTIME has no nameId",
        "has no names: its table StringIds is missing or empty",
    ]
    assert ("CUDA call",) in run.rows("spans", "name")


@pytest.mark.parametrize("packed", [False, True])
def test_a_report_of_two_processes(tmp_path: Path, runs: Path, packed: bool) -> None:
    path = database(tmp_path / "a.sqlite", nsys_tables())
    if packed:
        path.with_suffix(".gz").write_bytes(gzip.compress(path.read_bytes()))
        path = path.with_suffix(".gz")
    before = sorted(tmp_path.iterdir())
    run = Imported(path, into=runs)
    assert sorted(tmp_path.iterdir()) == [*before, runs]  # no journal, no copy next to it
    assert run.info["source"] == "nsys"
    assert run.info["clock"] == "absolute"
    assert [(r["rank"], r["pid"], r["device"], r["host"]) for r in run.ranks.values()] == [
        (0, 145, "GPU 0", "node7"),
        (1, 144, "GPU 1", "node7"),
    ]
    columns = ("rank", "ts_ns", "dur_ns", "kind", "name", "track", "depth", "step", "num_bytes")
    assert run.rows("spans", *columns) == [
        (rank, UTC_NS + ts, *rest)
        for rank, ts, *rest in (
            (0, 200, 60, "other_comm", "ncclDevKernel_AllReduce", "GPU 0 stream 9", 0, -1, -1),
            (1, 85, 14, "host", "aten::mm", "thread 144", 0, 7, -1),
            (1, 86, 12, "host", "gemm", "thread 144", 1, 7, -1),
            (1, 90, 5, "host", "cudaLaunch", "thread 145 CUDA", 0, 7, -1),
            (1, 100, 50, "kernel", "gemm", "GPU 1 stream 7", 0, 7, -1),
            (1, 120, 50, "kernel", "gemm", "GPU 1 stream 7", 1, 7, -1),  # stacked, not dropped
            (1, 300, 10, "memcpy", "Memcpy HtoD", "GPU 1 stream 7", 0, 7, 4096),
        )
    ]
    assert run.rows("steps", "rank", "step", "dur_ns") == [(1, 7, 320)]
    assert any("shown as ranks 0 to 1, by their GPU" in guess for guess in run.guesses)
    assert "1 NVTX ranges that never end left out" in run.problems[0]


def test_old_exports_without_processes_or_times(tmp_path: Path, runs: Path) -> None:
    columns = '"start", "end", deviceId, streamId, shortName'
    rows = [(10, 20, gpu, 7, 1) for gpu in (0, 1)]
    path = database(tmp_path / "a.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": (columns, rows)})
    run = Imported(path, into=runs)
    assert run.info["clock"] == "unknown"
    assert run.rows("spans", "rank", "ts_ns", "name") == [(0, 10, "kernel"), (1, 10, "kernel")]


def test_values_of_other_types(tmp_path: Path, runs: Path) -> None:
    strange = [
        (None, 5, 0, 7, PROCESS, 1, 1),
        ("1", "2", 0, 7, PROCESS, 1, 1),
        (2**62, 2**63 - 1, 0, 7, PROCESS, 1, 1),
        (1, 2, b"x", 7, PROCESS, 1, 1),
        (5, 2, 0, None, PROCESS, "x", 10**15),
        (7, 9, 0, "s", 1.5, None, None),
    ]
    path = database(tmp_path / "a.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": (KERNELS, strange)})
    run = Imported(path, into=runs)
    assert run.rows("spans", "rank", "dur_ns", "name", "track") == [
        (0, 2, "kernel", "GPU 0 stream s"),
        (1, 0, "kernel", "GPU 0 stream None"),
    ]
    assert "4 rows without usable times left out" in run.problems[0]


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
def test_a_real_report_of_two_gpus(runs: Path) -> None:
    run = Imported(TRACES / "nsys/mfu_2gpu_before.sqlite", into=runs)
    assert run.problems == []
    kernels: dict[int, list[tuple[str, int]]] = {0: [], 1: []}
    for rank, kind, dur_ns in run.rows("spans", "rank", "kind", "dur_ns"):
        if kind in ("kernel", "other_comm"):
            kernels[rank].append((kind, dur_ns))
    assert {rank: len(found) for rank, found in kernels.items()} == {0: 1993, 1: 2017}
    nccl = {r: [dur for kind, dur in found if kind == "other_comm"] for r, found in kernels.items()}
    assert {rank: len(found) for rank, found in nccl.items()} == {0: 33, 1: 33}
    assert [round(sum(found) / 1e6, 1) for found in nccl.values()] == [17.2, 8.2]
