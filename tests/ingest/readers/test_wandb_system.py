"""W&B's system metrics: rows as the API gives them, saved as JSON lines or as CSV."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.readers.line_files import write_lines
from tests.reader_results import Imported

T_S = 1_700_000_000
ROW = {
    "_runtime": 12.5,
    "_timestamp": T_S + 0.25,
    "_wandb": True,
    "system.gpu.0.powerWatts": 512.5,
    "system.gpu.0.smClock": 1980,
    "system.gpu.1.temp": 63,
    "system.cpu": 41.5,
    "system.proc.memory.rssMB": 2.0,
    "system.network.sent": 7,
}
CSV = """,_runtime,_timestamp,system.gpu.0.gpu,system.gpu.0.memoryAllocatedBytes,system.disk
0,1.5,1700000000.5,97.0,1024,5
1,16.5,1700000015.5,,NaN,5
2,x,,12,1,5
"""


def test_rows_of_json_lines(tmp_path: Path, runs: Path) -> None:
    path = write_lines(tmp_path / "in", "rank3.jsonl", ROW, {"no": "time"}, ROW | {"_timestamp": 0})
    run = Imported(path, into=runs)
    rows = run.rows("host_metrics", "device", "metric", "value", "rank", "ts_ns")
    ts_ns = T_S * 10**9 + 250_000_000
    assert rows == [
        ("gpu:0", "gpu_power_watts", 512.5, -1, ts_ns),
        ("gpu:0", "gpu_sm_clock_mhz", 1980, -1, ts_ns),
        ("gpu:1", "gpu_temperature_celsius", 63, -1, ts_ns),
        ("host", "cpu_utilization_percent", 41.5, -1, ts_ns),
        ("process", "process_resident_bytes", 2 * 2**20, 3, ts_ns),
    ]
    assert list(run.ranks) == [3]
    assert run.problems[0].endswith("rank3.jsonl: 2 rows without a time were left out")
    assert any("system.network.sent" in guess for guess in run.guesses)


def test_rows_of_a_csv(tmp_path: Path, runs: Path) -> None:
    path = tmp_path / "system.csv"
    path.write_text(CSV)
    run = Imported(path, into=runs)
    assert run.info["source"] == "wandb_system"
    assert run.rows("host_metrics", "device", "metric", "value") == [
        ("gpu:0", "gpu_utilization_percent", 97.0),
        ("gpu:0", "gpu_memory_used_bytes", 1024.0),
    ]
    assert run.problems[0].endswith("system.csv: 1 rows without a time were left out")
    assert any("rank 0" in guess for guess in run.guesses)


def test_a_row_without_a_value_is_no_sample(tmp_path: Path, runs: Path) -> None:
    rows = [{"_timestamp": T_S, "system.gpu.0.temp": value} for value in (None, "NaN", "x", 5)]
    run = Imported(write_lines(tmp_path / "in", "x.jsonl", *rows), into=runs)
    assert run.rows("host_metrics", "value") == [(5.0,)]


def test_a_file_without_any_sample_is_a_problem(tmp_path: Path, runs: Path) -> None:
    lines = [{"_timestamp": T_S, "system.disk": 5}, ROW]
    first = write_lines(tmp_path / "in", "a.jsonl", lines[0])
    run = Imported(first, write_lines(tmp_path / "in", "b.jsonl", lines[1]), into=runs)
    assert run.problems == [f"{first}: no sample could be read"]
