"""NCCL's RAS: who is behind follows from polls that stand still, who is dead from one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diagnosis.detectors import dead_rank, stuck
from diagnosis.findings import Finding
from diagnosis.stuck.evidence import QUESTIONS
from ingest.errors import UserError
from ingest.run import open_run
from tests.ingest.readers.flight_recorder import dumps
from tests.ingest.readers.nccl_ras.ras_polls import (
    HOST,
    Json,
    communicator,
    member,
    missing,
    poll,
    world,
    write,
)
from tests.reader_results import Imported

BEHIND = {0: 413, 1: 413, 2: 412, 3: 413}
EVEN = dict.fromkeys(range(4), 413)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "in"


def findings_of(run: Imported) -> list[Finding]:
    with open_run(run.folder) as opened:
        tables = {name: opened.ask(name, attempt=0) for name in QUESTIONS}
    verdicts = [stuck.detect(tables, 0), dead_rank.detect(tables, 0)]
    return [finding for verdict in verdicts if verdict for finding in verdict.findings]


def summary(finding: Finding) -> tuple[str, list[int], str]:
    return finding.kind, [place.rank for place in finding.culprits], finding.confidence


@pytest.mark.parametrize(
    ("times", "confidence"),
    [((0, 30), "low"), ((0, 30, 60, 90), "medium"), ((0, 12), "low")],
)
def test_the_rank_with_the_fewest_launches_is_behind(
    folder: Path, runs: Path, times: tuple[int, ...], confidence: str
) -> None:
    write(folder, *(poll(at, world(BEHIND)) for at in times))
    run = Imported(folder, into=runs)
    assert run.info["source"] == "nccl_ras"
    assert run.problems == []
    assert [run.ranks[2][key] for key in ("host", "pid", "world_size")] == [HOST, 1002, 4]
    (finding,) = findings_of(run)
    assert summary(finding) == ("missing_rank", [2], confidence)
    assert finding.text.startswith("Ranks 0, 1 and 3 wait for rank 2 in all_reduce 415 of group")
    assert f"no more for {times[-1]} s, as NCCL's RAS counts them (process 1002 on {HOST})" in (
        finding.text
    )
    assert finding.victims == (0, 1, 3)


def test_one_poll_names_nobody(folder: Path, runs: Path) -> None:
    run = Imported(write(folder, poll(0, world(BEHIND))), into=runs)
    assert findings_of(run) == []
    assert any("one poll of NCCL's RAS does not say who is behind" in g for g in run.guesses)


@pytest.mark.parametrize(
    "polls",
    [
        [poll(0, world(BEHIND)), poll(5, world(BEHIND))],
        [poll(0, world({**BEHIND, 2: 411})), poll(30, world(BEHIND))],
        [poll(0, world({**EVEN, 2: 412})), poll(30, world(EVEN))],
        [poll(0, world(EVEN)), poll(60, world(EVEN))],
        [poll(0, world(BEHIND)), poll(30, world(BEHIND, name="0x52"))],
        [
            poll(at, world(BEHIND), communicator("0x9", [member(0, 2, AllGather=at)]))
            for at in (0, 30)
        ],
    ],
    ids=[
        "too soon after each other",
        "it moves",
        "all have come by now",
        "all are even",
        "another job",
        "it moves in another group",
    ],
)
def test_what_moves_or_is_even_names_nobody(folder: Path, runs: Path, polls: list[Json]) -> None:
    assert findings_of(Imported(write(folder, *polls), into=runs)) == []


def test_even_counts_are_said_to_be_no_proof(folder: Path, runs: Path) -> None:
    run = Imported(write(folder, *(poll(at, world(EVEN)) for at in (0, 60))), into=runs)
    assert any("no rank launched a collective in the last 60 s" in guess for guess in run.guesses)


def test_members_that_are_behind_the_first_but_not_last_wait(folder: Path, runs: Path) -> None:
    """RAS counts launches, which run ahead: 412 and 413 both stand in 412."""
    counts = {0: 413, 1: 412, 2: 411, 3: 413}
    run = Imported(write(folder, *(poll(at, world(counts)) for at in (0, 30))), into=runs)
    assert [summary(finding)[:2] for finding in findings_of(run)] == [("missing_rank", [2])]


def test_who_waits_elsewhere_is_no_root(folder: Path, runs: Path) -> None:
    """Rank 2 is last in the world, since it waits for rank 3 in a group of the two."""
    pair = communicator("0x77", [member(0, 2, AllGather=9), member(1, 3, AllGather=8)])
    counts = {0: 413, 1: 413, 2: 412, 3: 412}
    run = Imported(write(folder, *(poll(at, world(counts), pair) for at in (0, 30))), into=runs)
    assert [summary(finding)[:2] for finding in findings_of(run)] == [("missing_rank", [3])]


@pytest.mark.parametrize("is_as_nccl_wrote_it", [False, True])
def test_a_dead_process_is_named_by_one_poll(
    folder: Path, runs: Path, is_as_nccl_wrote_it: bool
) -> None:
    write(folder, poll(0, world({0: 9, 1: 9, 3: 9}, [missing(2, 2, dead=True)])))
    path = folder / "ras_0.json"
    if is_as_nccl_wrote_it:  # 2.28.9 leaves out the comma
        text = path.read_text()
        head, tail = text.split('"missing_ranks": [')
        path.write_text(head + '"missing_ranks": [' + tail.replace('nvml_dev": 2,', 'nvml_dev": 2'))
        with pytest.raises(ValueError, match="delimiter"):
            json.loads(path.read_text())
    run = Imported(folder, into=runs)
    assert run.problems == []
    (finding,) = findings_of(run)
    assert summary(finding) == ("dead_rank", [2], "high")
    assert f"1002 on {HOST}" in finding.text


def test_a_process_that_does_not_answer_twice_hung(folder: Path, runs: Path) -> None:
    silent = world({0: 9, 1: 9, 3: 9}, [missing(2, 2)])
    assert findings_of(Imported(write(folder, poll(0, silent)), into=runs)) == []
    write(folder, poll(0, silent), poll(30, silent))
    (finding,) = findings_of(Imported(folder, into=runs))
    assert summary(finding) == ("hung_rank", [2], "medium")
    assert "does not answer NCCL's RAS" in finding.text


def test_a_job_most_of_whose_processes_are_dead_has_ended(folder: Path, runs: Path) -> None:
    gone = [missing(rank, rank, dead=True) for rank in (1, 2, 3)]
    assert findings_of(Imported(write(folder, poll(0, world({0: 9}, gone))), into=runs)) == []


@pytest.mark.parametrize(("answers_later", "kinds"), [(False, ["dead_rank"]), (True, [])])
def test_events_of_the_monitor(
    folder: Path, runs: Path, answers_later: bool, kinds: list[str]
) -> None:
    write(folder, poll(0, world(EVEN)), *([poll(120, world(EVEN))] * answers_later))
    event = {
        "timestamp": "2026-06-19 12:01:00",
        "group": "LIFECYCLE",
        "event": "PEER_DEAD",
        "peer": f"Process 1002 on node {HOST}",
        "details": "",
    }
    other = {**event, "event": "PEER_ADDED", "peer": f"{HOST}:4444"}
    (folder / "monitor.log").write_text(f"OK\n{json.dumps(other)}\n{json.dumps(event)}\n")
    assert [finding.kind for finding in findings_of(Imported(folder, into=runs))] == kinds


def test_polls_in_one_file_with_answers_of_the_server_between(folder: Path, runs: Path) -> None:
    folder.mkdir()
    texts = [json.dumps(poll(at, world(BEHIND)), indent=2) for at in (0, 30)]
    (folder / "polls.txt").write_text("SERVER PROTOCOL 2\nOK\n" + "\nOK\n".join(texts))
    assert [one.kind for one in findings_of(Imported(folder, into=runs))] == ["missing_rank"]


def test_a_cut_poll_costs_itself_only(folder: Path, runs: Path) -> None:
    write(folder, *(poll(at, world(BEHIND)) for at in (0, 30, 60)))
    path = folder / "ras_2.json"
    path.write_text(path.read_text()[:700])
    run = Imported(folder, into=runs)
    assert [one.kind for one in findings_of(run)] == ["missing_rank"]
    assert "ras_2.json: a poll in it is cut off or damaged, and left out" in run.problems[0]


def test_without_a_communicator_of_all_ranks_processes_are_named(folder: Path, runs: Path) -> None:
    pairs = [
        communicator("0x1", [member(0, 4, AllReduce=3), member(1, 5, AllReduce=2)]),
        communicator("0x2", [member(0, 6, AllReduce=7), member(1, 7, AllReduce=7)]),
    ]
    run = Imported(write(folder, *(poll(at, *pairs) for at in (0, 30))), into=runs)
    assert any("they are numbered by host, process and GPU" in guess for guess in run.guesses)
    (finding,) = findings_of(run)
    assert summary(finding)[:2] == ("missing_rank", [1])
    assert "(process 1005 on" in finding.text


def test_text_is_refused_with_the_command_for_json(folder: Path, runs: Path) -> None:
    folder.mkdir()
    text = (
        "NCCL version 2.28.9 compiled with CUDA 12.9\n\nJob summary\n===========\n\n  Nodes\n"
        "\nCommunicators... (0.00s)\n================\n"
    )
    (folder / "ras.txt").write_text(text)
    with pytest.raises(UserError, match="`ncclras -f json`"):
        Imported(folder, into=runs)


def test_polls_next_to_dumps_are_added_to_their_run(folder: Path, runs: Path) -> None:
    for rank in range(4):
        dumps.write(folder, rank, dumps.dump(dumps.entry(1)))
    write(folder, poll(0, world({0: 9, 1: 9, 3: 9}, [missing(2, 2, dead=True)])))
    run = Imported(folder, into=runs)
    assert run.info["source"] == "flight_recorder"
    assert run.ranks[2]["host"] == HOST
    assert "dead_rank" in [finding.kind for finding in findings_of(run)]


@pytest.mark.parametrize(
    "text",
    [
        '{"communicators_count": 1, "communicators": 5, "timestamp": "x"}',
        '{"communicators_count": 1, "communicators": [5, {"hash": 1}], "timestamp": 5}',
        '{"communicators_count": 1, "communicators": [{"hash": "0x1", "size": 2, "ranks": [5, '
        '{"rank": 0, "host": 5, "pid": [], "status": 7, "collective_counts": {"a": "b"}}], '
        '"missing_ranks": {}}], "timestamp": "2026-06-19 12:00:00"}',
    ],
)
def test_strange_values_are_problems(folder: Path, runs: Path, text: str) -> None:
    write(folder, poll(0, world(EVEN)))
    (folder / "strange.json").write_text(text)
    run = Imported(folder, into=runs)
    assert set(run.ranks) in ({0, 1, 2, 3}, {0})
