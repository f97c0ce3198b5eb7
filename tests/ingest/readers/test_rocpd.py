"""Databases of rocmProfileData."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.folders import NO_TRACES, TRACES
from tests.ingest.readers.test_nsys import database
from tests.reader_results import Imported

ROCPD = {
    "rocpd_string": (
        "id, string",
        [
            (1, ""),
            (2, "gemm"),
            (3, "KernelExecution"),
            (4, "CopyHostToDevice"),
            (5, "hipLaunchKernel"),
        ],
    ),
    "rocpd_api": (
        'id, pid, tid, "start", "end", apiName_id, args_id',
        [(1, 70, 71, 1000, 1010, 5, 1), (2, 80, 81, 1020, 1030, 5, 1)],
    ),
    "rocpd_op": (
        'id, gpuId, queueId, "start", "end", description_id, opType_id',
        [(1, 3, 0, 1100, 1200, 2, 3), (2, 2, 0, 1150, 1250, 1, 4), (3, 2, 0, 1, None, 1, 4)],
    ),
    "rocpd_api_ops": ("id, api_id, op_id", [(1, 1, 1), (2, 2, 2)]),
    "rocpd_copyapi": ("api_ptr_id, size", [(2, 512)]),
}


def test_a_rocpd_database_of_two_processes(tmp_path: Path, runs: Path) -> None:
    run = Imported(database(tmp_path / "a.rpd", ROCPD), into=runs)
    assert run.info["source"] == "rocpd"
    assert [(r["rank"], r["pid"], r["device"]) for r in run.ranks.values()] == [
        (0, 80, "GPU 2"),
        (1, 70, "GPU 3"),
    ]
    assert run.rows("spans", "rank", "ts_ns", "kind", "name", "track", "num_bytes") == [
        (0, 1020, "host", "hipLaunchKernel", "thread 81", -1),
        (0, 1150, "memcpy", "CopyHostToDevice", "GPU 2 stream 0", 512),
        (1, 1000, "host", "hipLaunchKernel", "thread 71", -1),
        (1, 1100, "kernel", "gemm", "GPU 3 stream 0", -1),
    ]
    assert "1 rows without usable times left out" in run.problems[0]


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
def test_a_real_rocpd_database(runs: Path) -> None:
    run = Imported(TRACES / "rocpd/matmul_result_large.rpd", into=runs)
    assert run.problems == []
    kinds = [kind for (kind,) in run.rows("spans", "kind")]
    assert (kinds.count("kernel"), kinds.count("memcpy"), kinds.count("host")) == (29, 56, 125)
