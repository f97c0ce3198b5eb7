"""labelled_log_lines, log_progress and logged_processes, on logs that are imported as files."""

from __future__ import annotations

import pytest

from app.analysis.imports import open_any
from ingest.imports.worker_command import HERE_VARIABLE

STEPS = "".join(
    f"2026-03-04 10:00:{at:02d},000 - INFO - step {at} loss 2.{at}\n" for at in range(40)
)
ERROR = (
    "2026-03-04 10:00:20,500 - WARNING - shard 7 is slow\n"
    "Traceback (most recent call last):\n  File \"train.py\", line 9, in step\nKeyError: 'labels'\n"
)
RANK_0 = "".join(line for line in STEPS.splitlines(keepends=True)[:21]) + ERROR
RANK_1 = STEPS + (
    "n1:77:901 [1] NCCL INFO comm 0x55d3 rank 1 nranks 2 cudaDev 1 busId 1000 - Init COMPLETE\n"
    "n1:77:901 [1] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>\n"
)


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv(HERE_VARIABLE, "1")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank_0.log").write_text(RANK_0)
    (tmp_path / "logs/rank_1.log").write_text(RANK_1)
    with open_any(tmp_path / "logs") as run:
        yield run


def test_a_marked_line_with_what_stands_around_it(logs):
    (row,) = [row for row in logs.ask("labelled_log_lines").to_pylist() if row["label"]]
    assert (row["rank"], row["label"], row["line"]) == (0, "exception", 23)
    assert row["before"].endswith("shard 7 is slow")
    assert row["before_line"] == 22
    assert (row["went_on_lines"], row["usual_after"], row["until_ns"]) == (None, 0, None)


def test_until_when_steps_went_on(logs):
    rows = {row["rank"]: row for row in logs.ask("log_progress").to_pylist()}
    assert rows[0]["count"] == 21
    assert rows[1]["line"] == 38
    assert rows[1]["last_line"] == 40
    assert rows[1]["ts_ns"] - rows[0]["ts_ns"] == 19 * 10**9


def test_processes_and_their_ranks(logs):
    (row,) = logs.ask("logged_processes").to_pylist()
    assert row == {"rank": 1, "host": "n1", "pid": 77, "address": "10.0.0.2"}


def test_ranks_of_processes_in_a_shared_file(tmp_path, monkeypatch):
    """The largest group is that of all ranks."""
    monkeypatch.setenv(HERE_VARIABLE, "1")
    comm = "n1:{pid}:901 [0] NCCL INFO comm 0x55 rank {rank} nranks {size} cudaDev 0 busId 1\n"
    text = comm.format(pid=77, rank=5, size=16) + comm.format(pid=77, rank=1, size=2)
    (tmp_path / "train.log").write_text(text + comm.format(pid=78, rank=1, size=2))
    with open_any(tmp_path / "train.log") as run:
        rows = run.ask("logged_processes").to_pylist()
    assert [(row["rank"], row["pid"]) for row in rows] == [(5, 77)]
