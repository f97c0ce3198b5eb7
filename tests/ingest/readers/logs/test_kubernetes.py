"""Kubernetes: kubectl logs with its options, files of pods, folders of containers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ingest.readers.logs.log_files import (
    TRACEBACK,
    column,
    imported_lines,
    lines_of,
    write_logs,
)
from tests.reader_results import Imported

AT = "2026-04-13T16:51:20.25Z"
AT_NS = 1776099080_250_000_000
LONG_AT = "2026-04-13T16:51:20.250000000Z"


@pytest.mark.parametrize("time", ["", f"{LONG_AT} "])
def test_prefixes_of_kubectl(folder: Path, runs: Path, time: str) -> None:
    """--prefix, and --timestamps; tracebacks of two pods line by line in turn."""
    text = "".join(
        f"[pod/train-worker-{pod}/pytorch] {time}{line}\n"
        for line in TRACEBACK.split("\n")
        for pod in (0, 1)
    )
    text += f"[pod/train-worker-1/pytorch] {time}[rank9]: over\n"
    lines = imported_lines(folder, runs, {"pods.txt": text})
    assert column(lines, "host", "rank", "text") == [
        ("train-worker-0", -1, TRACEBACK),
        ("train-worker-1", -1, TRACEBACK),
        ("train-worker-1", 9, "over"),
    ]
    assert column(lines, "ts_ns") == [AT_NS if time else -1] * 3


def test_files_of_pods_with_a_rank_each(folder: Path, runs: Path) -> None:
    """Where there is a master it is rank 0, and worker 0 is rank 1."""
    logs = {f"job-{role}.log": f"{AT} ok\n" for role in ("master-0", "worker-0", "worker-1")}
    run = Imported(write_logs(folder, logs), into=runs)
    assert column(lines_of(run), "file", "rank", "host") == [
        ("job-master-0.log", 0, "job-master-0"),
        ("job-worker-0.log", 1, "job-worker-0"),
        ("job-worker-1.log", 2, "job-worker-1"),
    ]
    assert any("number of the worker" in guess for guess in run.guesses)


def test_files_of_pods_with_several_ranks_each(folder: Path, runs: Path) -> None:
    """Lines show that the number of a pod is that of a host."""
    logs = {
        f"job-worker-{pod}.log": f"[rank{2 * pod}]: a\n[rank{2 * pod + 1}]: b\nc {AT}\n"
        for pod in (0, 1)
    }
    run = Imported(write_logs(folder, logs), into=runs)
    assert column(lines_of(run), "rank") == [0, 1, -1, 2, 3, -1]
    assert [info["host"] for info in run.ranks.values()] == [
        "job-worker-0",
        "job-worker-0",
        "job-worker-1",
        "job-worker-1",
    ]


def test_folders_of_containers(folder: Path, runs: Path) -> None:
    """Lines in parts are one line; its streams are apart."""
    text = (
        f"{AT} stderr F [rank3]: Traceback (most recent call last):\n"
        f"{AT} stdout P {'x' * 3000}\n"
        f'{AT} stderr F [rank3]:   File "t.py", line 1, in <module>\n'
        f"{AT} stdout F the rest of it\n"
        f"{AT} stderr F [rank3]: ValueError: bad\n"
        f"{AT} stdout F over\n"
    )
    name = "train_job-worker-1_0c5e6a10-77aa-4c1f-8c1e-1f2e3d4c5b6a/pytorch/0.log"
    lines = imported_lines(folder, runs, {name: text, "x/y.txt": "INFO: other\n"})
    assert column(lines, "stream", "line", "rank", "host", "ts_ns")[:3] == [
        ("stderr", 1, 3, "job-worker-1", AT_NS),
        ("stdout", 2, -1, "job-worker-1", AT_NS),
        ("stdout", 6, -1, "job-worker-1", AT_NS),
    ]
    assert [line.text[:20] for line in lines[:3]] == ["Traceback (most rece", "x" * 20, "over"]
    assert lines[0].text.endswith("ValueError: bad")


def test_logs_of_docker(folder: Path, runs: Path) -> None:
    records = [
        {"log": "[rank2]: loss 1.5\n", "stream": "stdout", "time": LONG_AT},
        {"log": "Killed\n", "stream": "stderr", "time": LONG_AT},
        {"log": "over", "stream": "stdout", "time": LONG_AT},
    ]
    text = "\n".join(json.dumps(record) for record in records) + '\n{"log": 7}\n[]\n{"log'
    lines = imported_lines(folder, runs, {"1a2b-json.log": text})
    assert column(lines, "rank", "stream", "ts_ns", "text") == [
        (2, "stdout", AT_NS, "loss 1.5"),
        (-1, "stderr", AT_NS, "Killed"),
        (-1, "stdout", AT_NS, "over"),
    ]
