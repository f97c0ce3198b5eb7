"""Folders of torchrun: local ranks become global ones where lines say which, else stay unknown."""

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

C10D = "[rank{rank}]:[E413 16:51:14.061727749 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog"
LOG = "2026-04-13 16:50:00,125 - INFO - step 1"
BOX = """============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-04-13_16:51:20
  host      : node1.cluster.example
  rank      : 5 (local_rank: 1)
  exitcode  : 1 (pid: 4711)
============================================================
"""


def _two_hosts(run: str = "none_x7s2") -> dict[str, str]:
    """stderr of two ranks on each of two hosts; the C++ lines of local rank 0 name its rank."""
    return {
        f"{host}/{run}/attempt_0/{local}/stderr.log": f"{LOG}\n{C10D.format(rank=rank)}\n"
        if local == 0
        else f"{LOG}\n"
        for host, local, rank in (
            ("node0", 0, 0),
            ("node0", 1, 1),
            ("node1", 0, 4),
            ("node1", 1, 5),
        )
    }


def test_two_hosts_whose_lines_name_ranks(folder: Path, runs: Path) -> None:
    """One line of local rank 0 is enough for all ranks of its host."""
    run = Imported(write_logs(folder, _two_hosts()), into=runs)
    assert set(column(lines_of(run), "rank", "host", "stream")) == {
        (0, "node0", "stderr"),
        (1, "node0", "stderr"),
        (4, "node1", "stderr"),
        (5, "node1", "stderr"),
    }
    assert {rank: info["host"] for rank, info in run.ranks.items()} == {
        0: "node0",
        1: "node0",
        4: "node1",
        5: "node1",
    }
    first, second = lines_of(run)[:2]
    assert (first.text, second.text[:9]) == (LOG, "[E413 16:")


def test_two_hosts_whose_lines_name_no_rank_stay_unknown(folder: Path, runs: Path) -> None:
    logs = dict.fromkeys(_two_hosts(), f"{LOG}\n")
    run = Imported(write_logs(folder, logs), into=runs)
    assert set(column(lines_of(run), "rank")) == {-1}
    assert set(column(lines_of(run), "host")) == {"node0", "node1"}
    assert any("no line of the logs names its rank" in guess for guess in run.guesses)


def test_torchruns_that_share_a_folder_have_ranks_of_their_own(folder: Path, runs: Path) -> None:
    """Each torchrun makes a folder of its own, whose name is no host's."""
    logs = {
        name.replace("node0/none_x7s2", "job_a").replace("node1/none_x7s2", "job_b"): text
        for name, text in _two_hosts().items()
    }
    assert set(column(imported_lines(folder, runs, logs), "rank", "host")) == {
        (0, ""),
        (1, ""),
        (4, ""),
        (5, ""),
    }


def test_one_host_is_taken_as_the_job(folder: Path, runs: Path) -> None:
    logs = {f"none_x/attempt_0/{local}/stdout.log": f"{LOG}\n" for local in range(3)}
    run = Imported(write_logs(folder, logs), into=runs)
    assert column(lines_of(run), "rank", "stream") == [(n, "stdout") for n in range(3)]
    assert any("with one host" in guess for guess in run.guesses)


def test_the_box_of_a_failure_says_which_ranks_a_host_has(folder: Path, runs: Path) -> None:
    """Hosts there may have their domain."""
    logs = dict.fromkeys(_two_hosts(), f"{LOG}\n")
    lines = imported_lines(folder, runs, {**logs, "node1/torchrun.log": BOX})
    ranks = dict(column(lines, "file", "rank"))
    assert ranks == {
        "node0/none_x7s2/attempt_0/0/stderr.log": -1,
        "node0/none_x7s2/attempt_0/1/stderr.log": -1,
        "node1/none_x7s2/attempt_0/0/stderr.log": 4,
        "node1/none_x7s2/attempt_0/1/stderr.log": 5,
        "node1/torchrun.log": -1,
    }
    (box,) = [line for line in lines if line.file == "node1/torchrun.log"]
    assert (box.stream, box.level, box.label) == ("launcher", "error", "process_failed_box")
    assert box.text == BOX.rstrip()


def test_a_console_with_local_ranks(folder: Path, runs: Path) -> None:
    """torchrun --tee: `[default1]:`, in front of lines of C++ code also the global rank."""
    text = f"[default0]:{C10D.format(rank=4)}\n[default1]:{LOG}\n[default0]:loss 2.5\nend of job\n"
    lines = imported_lines(folder, runs, {"console.log": text})
    assert column(lines, "rank", "text")[1:] == [(5, LOG), (4, "loss 2.5"), (-1, "end of job")]


def test_a_console_whose_local_ranks_nothing_explains(folder: Path, runs: Path) -> None:
    text = "".join(f"[default{local}]:{LOG}\n" for local in range(3))
    assert column(imported_lines(folder, runs, {"out.log": text}), "rank") == [-1, -1, -1]


def _error(message: object) -> str:
    return json.dumps({"message": message})


def test_error_files(folder: Path, runs: Path) -> None:
    stack = f"{TRACEBACK}\n"
    extra = {"py_callstack": stack, "timestamp": "1776099080"}
    logs = {name: text for name, text in _two_hosts().items() if "node1" in name}
    logs["node1/none_x7s2/attempt_0/1/error.json"] = _error(
        {"message": "RuntimeError: CUDA error", "extraInfo": extra, "errorCode": 1}
    )
    lines = imported_lines(folder, runs, logs)
    (error,) = [line for line in lines if line.file.endswith("error.json")]
    assert error.text == TRACEBACK
    assert (error.rank, error.ts_ns, error.timed) == (5, 1776099080 * 10**9, "own")
    assert (error.level, error.label, error.stream) == ("error", "device_assert", "stderr")


def test_an_error_file_of_old_is_text_alone(folder: Path, runs: Path) -> None:
    name = "none_x/attempt_0/0/error.json"
    (line,) = imported_lines(folder, runs, {name: _error("ValueError: bad shape")})
    assert (line.text, line.rank, line.level, line.timed) == (
        "ValueError: bad shape",
        0,
        "error",
        "none",
    )


@pytest.mark.parametrize(
    "content",
    [
        '{"message": {"extraInfo": []}}',
        '{"message": {"message": 7, "extraInfo": {"py_callstack": [1], "timestamp": "\u0661"}}}',
        '{"message": {"message": null, "extraInfo": {"timestamp": 1e99}}}',
    ],
)
def test_odd_error_files_cost_nothing(folder: Path, runs: Path, content: str) -> None:
    (line,) = imported_lines(folder, runs, {"a/attempt_0/0/error.json": content})
    assert (line.level, line.ts_ns) == ("error", -1)
