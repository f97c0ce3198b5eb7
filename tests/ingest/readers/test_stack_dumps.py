"""Stacks that py-spy and faulthandler print, one file per rank."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.views.stuck import of_tables
from diagnosis.detectors.stuck import detect
from diagnosis.stuck.evidence import QUESTIONS
from ingest.errors import UserError
from ingest.run import open_run
from tests.ingest.readers.flight_recorder import dumps
from tests.reader_results import Imported

DISTRIBUTED = "/env/site-packages/torch/distributed/distributed_c10d.py"
WAITS = (("all_reduce", DISTRIBUTED, 3245), ("step", "/job/train.py", 40))
LOADS = (("read_shard", "/job/data.py", 7), ("step", "/job/train.py", 31))


def py_spy_json(frames: tuple[tuple[str, str, int], ...], pid: int = 77) -> str:
    def thread(name: str, number: int, own: tuple[tuple[str, str, int], ...]) -> dict[str, object]:
        listed = [
            {"name": f, "filename": file, "module": None, "short_filename": "x", "line": line}
            for f, file, line in own
        ]
        ids = {"pid": pid, "thread_id": number, "thread_name": name, "os_thread_id": number}
        return {**ids, "active": True, "owns_gil": False, "frames": listed, "process_info": None}

    other = (("run", "/lib/python3.11/threading.py", 9),)
    return json.dumps([thread("drain", 5, other), thread("MainThread", pid, frames)], indent=2)


def py_spy_text(frames: tuple[tuple[str, str, int], ...], pid: int = 77) -> str:
    lines = [f"    {name} ({file}:{line})" for name, file, line in frames]
    head = f"Process {pid}: python train.py --lr 1\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
    other = 'Thread 78 (idle): "drain"\n    run (threading.py:9)\n'
    return f'{head}Thread {pid} (active+gil): "MainThread"\n' + "\n".join(lines) + f"\n{other}"


def faulthandler_text(frames: tuple[tuple[str, str, int], ...]) -> str:
    lines = [f'  File "{file}", line {line} in {name}' for name, file, line in frames]
    other = (
        'Thread 0x00007f01 (most recent call first):\n  File "/lib/threading.py", line 9 in run\n'
    )
    return f"{other}\nCurrent thread 0x00007f02 (most recent call first):\n" + "\n".join(lines)


FORMS = [(py_spy_json, "py_spy"), (py_spy_text, "py_spy"), (faulthandler_text, "faulthandler")]


@pytest.mark.parametrize(("printed", "source"), FORMS)
def test_ranks_are_grouped_by_their_stacks(
    tmp_path: Path, runs: Path, printed: object, source: str
) -> None:
    assert callable(printed)
    folder = tmp_path / "in"
    folder.mkdir()
    for rank in range(4):
        (folder / f"rank_{rank}.txt").write_text(printed(LOADS if rank == 2 else WAITS))
    run = Imported(folder, into=runs)
    assert run.info["source"] == "stack_dumps"
    assert run.problems == []
    assert run.rows("looks", "rank", "source", "stack", "threads")[2] == (
        *(2, source, "read_shard job/data.py:7\nstep job/train.py:31".replace("job/", "/job/")),
        run.rows("looks", "threads")[2][0],
    )
    assert "run " in run.rows("looks", "threads")[2][0]
    with open_run(run.folder) as opened:
        tables = {name: opened.ask(name, attempt=0) for name in QUESTIONS}
    assert [group["ranks"] for group in of_tables(tables).stacks] == ["rank 2", "ranks 0, 1 and 3"]
    assert detect(tables, 0) is None


def test_stacks_next_to_dumps_say_where_a_missing_rank_was(tmp_path: Path, runs: Path) -> None:
    folder = tmp_path / "in"
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    for rank in range(4):
        call = dumps.entry(0 if rank == 2 else 1, process_group=("0", "default_pg"))
        dumps.write(folder, rank, dumps.dump(call, pg_config=config, pg_status={}))
        stack = py_spy_json(LOADS if rank == 2 else WAITS, pid=900 + rank)
        (folder / f"rank_{rank}.stack.json").write_text(stack)
    (folder / "904.json").write_text(py_spy_json(WAITS, pid=904))
    run = Imported(folder, into=runs)
    assert run.info["source"] == "flight_recorder"
    assert "904.json: nothing says of which rank it is; left out" in run.problems[0]
    with open_run(run.folder) as opened:
        verdict = detect({name: opened.ask(name, attempt=0) for name in QUESTIONS}, 0)
    assert verdict is not None
    (finding,) = verdict.findings
    assert [place.rank for place in finding.culprits] == [2]
    assert "its main thread was in read_shard /job/data.py:7 when its stack" in finding.cause


def test_files_named_by_the_process_are_numbered_in_their_order(tmp_path: Path, runs: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for pid in (811, 812):
        (folder / f"host7-{pid}.json").write_text(py_spy_json(WAITS, pid))
    (folder / "rank_1.json").write_text(py_spy_json(WAITS, 5))
    (folder / "copy_of_rank_1.json").write_text(py_spy_json(WAITS, 5))
    run = Imported(folder, into=runs)
    assert run.rows("looks", "rank", "pid") == [(0, 811), (1, 5), (2, 812)]
    assert sum("names no rank: shown as rank" in guess for guess in run.guesses) == 2
    assert "says it is rank 1" in run.problems[0]


@pytest.mark.parametrize(
    "text",
    [
        '[{"pid": 5, "thread_id": 5, "frames": [{"name": 5}, 7]}, 8]',
        '[{"pid": 5, "thread_id": 5, "frames": [{"name": "f", "filename": "a.py", "line": "x"}]',
        "Process 5: python\nPython v3.11 (x)\n",
    ],
)
def test_what_holds_no_stack_is_a_problem(tmp_path: Path, runs: Path, text: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "rank_0.json").write_text(py_spy_json(WAITS))
    (folder / "rank_1.json").write_text(text)
    run = Imported(folder, into=runs)
    assert [row[0] for row in run.rows("looks", "stack")][1:] in ([], [None])


def test_a_log_with_a_dump_in_it_is_a_log(tmp_path: Path, runs: Path) -> None:
    path = tmp_path / "rank_0.log"
    path.write_text("2026-01-01 00:00:00 starting\n" + faulthandler_text(WAITS))
    assert Imported(path, into=runs).info["source"] == "logs"


def test_a_file_without_any_stack_is_refused(tmp_path: Path, runs: Path) -> None:
    path = tmp_path / "rank_0.txt"
    path.write_text("Process 5: python\nPython v3.11 (x)\n")
    with pytest.raises(UserError, match="holds no stack that could be read"):
        Imported(path, into=runs)
