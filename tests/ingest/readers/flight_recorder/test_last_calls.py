"""Stacks of dumps become stacks of ranks, and dumps that are not whole accuse nobody."""

from __future__ import annotations

import json
import pickle  # noqa: TID251  # to make dumps
from pathlib import Path
from typing import Any

import pytest

from app.views.stuck import of_tables
from diagnosis.detectors.stuck import detect
from diagnosis.findings import Finding
from diagnosis.stuck.evidence import QUESTIONS
from ingest.run import open_run
from tests.ingest.readers.flight_recorder.dumps import T0, Json, dump, entry, write
from tests.reader_results import Imported

VERSIONS = ("2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10")
HOUR_NS = 3600 * 10**9
GROUPS = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
DONE = {"state": "completed", "retired": True}


def frames(line: int, function: str = "step") -> list[Json]:
    library = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    return [
        {"name": "all_reduce", "filename": library, "line": 3245},
        {"name": function, "filename": "/home/x/job/src/train.py", "line": line},
        {"name": "<module>", "filename": "/home/x/job/src/train.py", "line": 9},
    ]


def world(*entries: Json, **more: Any) -> Json:
    """A dump whose entries are of the group of all four ranks."""
    numbers = [one["collective_seq_id"] for one in entries]
    done = [one["collective_seq_id"] for one in entries if one["retired"]]
    status = {
        "last_enqueued_collective": max(numbers, default=-1),
        "last_started_collective": -1,
        "last_completed_collective": max(done, default=-1),
    }
    named = [{**one, "process_group": ("0", "default_pg"), "pg_id": 0} for one in entries]
    return dump(*named, **{"pg_config": GROUPS, "pg_status": {"0": status}, **more})


def findings_of(run: Imported) -> list[Finding]:
    with open_run(run.folder) as opened:
        verdict = detect({name: opened.ask(name, attempt=0) for name in QUESTIONS}, 0)
    return list(verdict.findings) if verdict else []


def named_in(run: Imported) -> list[int]:
    return [place.rank for finding in findings_of(run) for place in finding.culprits]


def of_version(version: str, data: Json) -> Json:
    """With the keys that a version has: specs and torch's source."""
    minor = int(version.split(".")[1])
    if minor < 10:
        data = {key: value for key, value in data.items() if key != "comm_lib_version"}
    if minor < 6 or minor >= 10:
        data = {key: value for key, value in data.items() if key != "nccl_version"}
    since = {"thread_id": 9, "thread_name": 9, "timeout_ms": 4, "is_p2p": 2, "pg_id": 2}
    entries = [
        {key: value for key, value in one.items() if minor >= since.get(key, 0)}
        for one in data["entries"]
    ]
    return {**data, "entries": entries, "version": version}


@pytest.mark.sampled
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("as_json", [False, True])
def test_every_version_names_who_is_missing(
    tmp_path: Path, runs: Path, version: str, as_json: bool
) -> None:
    for rank in range(4):
        calls = [entry(0, frames=frames(40), **DONE)]
        if rank != 2:
            calls.append(entry(1, frames=frames(44)))
        if as_json:
            calls = [{k: v for k, v in one.items() if k != "frames"} for one in calls]
        write(tmp_path / "in", rank, of_version(version, world(*calls)), as_json)
    run = Imported(tmp_path / "in", into=runs)
    assert run.problems == []
    (finding,) = findings_of(run)
    assert (finding.kind, [place.rank for place in finding.culprits]) == ("missing_rank", [2])
    if not as_json:
        assert "They called it in step x/job/src/train.py:44." in finding.text
        assert "ts last recorded call came from step x/job/src/train.py:40" in finding.text


def test_ranks_are_grouped_by_the_stack_of_their_last_call(tmp_path: Path, runs: Path) -> None:
    for rank in range(4):
        line, function = (50, "evaluate") if rank == 2 else (44, "step")
        write(tmp_path / "in", rank, world(entry(1, frames=frames(line, function))))
    run = Imported(tmp_path / "in", into=runs)
    stack = (
        "all_reduce site-packages/torch/distributed/distributed_c10d.py:3245\n"
        "step x/job/src/train.py:44\n<module> x/job/src/train.py:9"
    )
    assert run.rows("looks", "rank", "stack", "source", "num_entered")[0] == (
        *(0, stack, "flight_recorder", 1),
    )
    assert run.rows("entered", "rank", "seq", "stack", "source")[1] == (
        *(1, 101, stack, "flight_recorder"),
    )
    with open_run(run.folder) as opened:
        page = of_tables({name: opened.ask(name, attempt=0) for name in QUESTIONS})
    assert [(group["ranks"], group["where"]) for group in page.stacks] == [
        ("rank 2", "evaluate x/job/src/train.py:50"),
        ("ranks 0, 1 and 3", "step x/job/src/train.py:44"),
    ]
    assert page.at_ns is None
    assert {row["beat_s"] for row in page.ranks} == {None}


def test_who_entered_something_else_is_named_with_the_line(tmp_path: Path, runs: Path) -> None:
    for rank in range(4):
        call = entry(1, frames=frames(44))
        if rank == 3:
            call = entry(1, "nccl:broadcast", frames=frames(71, "sync"))
        write(tmp_path / "in", rank, world(call))
    (finding,) = findings_of(Imported(tmp_path / "in", into=runs))
    assert finding.kind == "mismatched_op"
    assert (
        "rank 3 entered broadcast in sync x/job/src/train.py:71, ranks 0, 1 and 2 all_reduce "
        in (finding.text)
    )


def test_a_dump_that_is_cut_off_accuses_nobody(tmp_path: Path, runs: Path) -> None:
    """It lacks the newest entries: its rank may have entered what the others wait in."""
    calls = [*(entry(number, **DONE) for number in range(60)), entry(60)]
    for rank in range(4):
        path = write(tmp_path / "in", rank, world(*calls))
        if rank == 2:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    run = Imported(tmp_path / "in", into=runs)
    assert "cut off or damaged" in run.problems[0]
    assert run.rows("looks", "rank", "num_entered") == [
        *((r, 61) for r in (0, 1)),
        (2, -1),
        (3, 61),
    ]
    assert named_in(run) == []


def test_a_dump_that_is_cut_off_shows_who_stands_behind(tmp_path: Path, runs: Path) -> None:
    for rank in range(4):
        calls = [entry(n, **({} if rank == 2 else DONE)) for n in range(60)]
        path = write(tmp_path / "in", rank, world(*calls, entry(60)))
        if rank == 2:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert named_in(Imported(tmp_path / "in", into=runs)) == [2]


def test_dumps_of_an_earlier_attempt_are_left_out(tmp_path: Path, runs: Path) -> None:
    """Rank 2 died before it could overwrite its own: what it did then says nothing of now."""
    for rank in range(4):
        call = entry(1) if rank != 2 else entry(0, time_created_ns=T0 - HOUR_NS)
        write(tmp_path / "in", rank, world(call))
    run = Imported(tmp_path / "in", into=runs)
    assert set(run.ranks) == {0, 1, 3}
    assert "rank_2: its newest entry is 60 minutes older than those of the" in run.problems[0]
    assert named_in(run) == []


@pytest.mark.parametrize("older", ["attempt_0", "attempt_2"])
def test_of_two_attempts_the_newer_counts(tmp_path: Path, runs: Path, older: str) -> None:
    for folder in (older, "attempt_1"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        for rank in range(4):
            started_ns = T0 - (120 * 10**9 if folder == older else 0)
            number = 0 if rank == (1 if folder == older else 2) else 1
            call = entry(number, time_created_ns=started_ns)
            write(tmp_path / "in" / folder, rank, world(call))
    run = Imported(tmp_path / "in", into=runs)
    assert sum("left out" in problem for problem in run.problems) == 4
    assert named_in(run) == [2]


def test_a_file_that_is_there_twice_counts_once(tmp_path: Path, runs: Path) -> None:
    for rank in range(4):
        write(tmp_path / "in", rank, world(entry(0 if rank == 2 else 1)))
    copy = tmp_path / "in" / "copy"
    copy.mkdir()
    write(copy, 2, world(entry(0)))
    run = Imported(tmp_path / "in", into=runs)
    assert len(run.rows("collectives", "rank")) == 4
    assert named_in(run) == [2]


def test_a_ring_that_has_overrun_still_says_where_its_rank_stands(
    tmp_path: Path, runs: Path
) -> None:
    """Rank 2 stands at 101, which newer entries of another group have overwritten."""
    config = GROUPS | {"7": {"name": "7", "desc": "mesh_tp", "ranks": "[2, 3]"}}
    for rank in range(4):
        data = world(entry(5, collective_seq_id=105), pg_config=config)
        if rank == 2:
            status = {
                "last_enqueued_collective": 105,
                "last_started_collective": -1,
                "last_completed_collective": 100,
            }
            data = dump(entry(900, **DONE), pg_config=config, pg_status={"0": status, "1": {}})
        write(tmp_path / "in", rank, data)
    run = Imported(tmp_path / "in", into=runs)
    of_rank = [row for row in run.rows("entered", "rank", "seq", "op", "state") if row[0] == 2]
    assert of_rank[-1] == (2, 101, "", "entered")
    assert named_in(run) == [2]


def test_numbers_in_json_may_be_texts(tmp_path: Path, runs: Path) -> None:
    for rank in range(4):
        call = entry(0 if rank == 2 else 1)
        texts = {key: str(value) if type(value) is int else value for key, value in call.items()}
        data = world(call)
        data["entries"] = [{**texts, "process_group": ["0", "default_pg"]}]
        write(tmp_path / "in", rank, data, as_json=True)
    run = Imported(tmp_path / "in", into=runs)
    assert run.rows("collectives", "rank", "seq", "enqueue_ns")[0] == (0, 101, T0 + 1000)
    assert named_in(run) == [2]


@pytest.mark.parametrize(
    "strange",
    [5, "x", [5], [{}], [{"name": 5, "filename": 6}], [{"name": "a\nb", "filename": "c"}]],
)
def test_strange_frames_cost_only_themselves(tmp_path: Path, runs: Path, strange: object) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    data = world(entry(1, frames=strange))
    (folder / "dump_0").write_bytes(pickle.dumps(data, 2))
    (folder / "dump_1.json").write_text(json.dumps(data))
    run = Imported(folder, into=runs)
    assert len(run.rows("collectives", "rank")) == 2
    assert {stack for (stack,) in run.rows("looks", "stack")} <= {None, "a b c:0"}
