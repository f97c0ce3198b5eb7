"""Flight Recorder dumps: hand-built ones for every trap, and real ones with their hangs."""

from __future__ import annotations

import json
import pickle  # noqa: TID251  # to make dumps
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.readers.flight_recorder.entries import Entry, entries_of
from ingest.readers.tables.finished_collectives import UNMATCHED_SEQ
from ingest.run import open_run
from tests.folders import NO_TRACES, TRACES
from tests.ingest.readers.flight_recorder.dumps import T0, dump, entry, write
from tests.reader_results import Imported


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "in"


@pytest.mark.parametrize("as_json", [False, True])
def test_entries_become_collectives(folder: Path, runs: Path, as_json: bool) -> None:
    done = {
        "state": "completed",
        "time_discovered_started_ns": T0 + 5000,
        "time_discovered_completed_ns": T0 + 9000,
    }
    for rank in (2, 3):
        entries = [entry(0, **done), entry(1, "nccl:_all_gather_base", state="started"), entry(2)]
        write(folder, rank, dump(*entries), as_json)
    run = Imported(folder, into=runs)
    assert run.info["source"] == "flight_recorder"
    assert {rank: info["world_size"] for rank, info in run.ranks.items()} == {2: 4, 3: 4}
    columns = ("rank", "seq", "op", "state", "enqueue_ns", "start_ns", "end_ns", "num_bytes")
    assert run.rows("collectives", *columns) == [
        row
        for rank in (2, 3)
        for row in (
            (rank, 100, "all_reduce", "completed", T0, T0 + 5000, T0 + 9000, 16),
            (rank, 101, "all_gather", "started", T0 + 1000, T0 + 1000, -1, 16),
            (rank, 102, "all_reduce", "enqueued", T0 + 2000, T0 + 2000, -1, 16),
        )
    ]
    assert len(set(run.rows("collectives", "group_id"))) == 1
    assert set(run.rows("groups", "name", "axis")) == {("0", "world"), ("7", "tp")}
    assert run.rows("collectives", "dtype")[0] == ("bfloat16",)
    assert run.problems == []
    assert "the ranks are taken from the file names: dumps do not contain them" in run.guesses


@pytest.mark.parametrize("is_whole", [True, False])
def test_messages_match_only_where_their_numbers_are_known(
    folder: Path, runs: Path, is_whole: bool
) -> None:
    first = 0 if is_whole else 1
    write(folder, 2, dump(entry(first, "nccl:send 0->1"), entry(first + 1, "nccl:send 0->1")))
    write(folder, 3, dump(entry(first, "nccl:recv 1<-0")))
    run = Imported(folder, into=runs)
    rows = run.rows("collectives", "rank", "op", "peer", "seq", "num_bytes")
    apart = UNMATCHED_SEQ + 2 * 40
    seqs = [0, 1, 0] if is_whole else [apart + 2, apart + 4, apart + 3]
    assert rows == [
        (2, "send", 3, seqs[0], 16),
        (2, "send", 3, seqs[1], 16),
        (3, "recv", 2, seqs[2], 12),
    ]


def test_an_empty_dump_is_a_rank_with_what_its_groups_did_last(folder: Path, runs: Path) -> None:
    write(folder, 2, dump(entry(5)))
    write(folder, 3, dump())
    run = Imported(folder, into=runs)
    assert set(run.ranks) == {2, 3}
    assert run.info["created_ns"] == T0 + 5000
    notes = {
        rank: (ts, text, json.loads(args))
        for rank, ts, text, args in run.rows("marks", "rank", "ts_ns", "text", "args")
    }
    ts_ns, text, args = notes[3]
    assert ts_ns == T0 + 5000
    assert text.startswith("Flight Recorder 2.9: 0 entries (none); 1 of 2 groups")
    assert args["entries"] == 0
    # no entry shows which group number 1 is: both sides are counted in order of creation
    assert [(one["group"], one["enqueued"], one["completed"]) for one in args["last"]] == [
        ("0", -1, -1),
        ("7", 105, 100),
    ]


def test_what_torch_writes_on_gloo(folder: Path, runs: Path) -> None:
    """One group without a name, texts for numbers, 0 for null, and a state that never changes."""
    status = {f"last_{what}_collective": "2" for what in ("enqueued", "completed")}
    data = dump(
        entry(
            0,
            "gloo:barrier",
            process_group=["0", "default_pg"],
            retired=True,
            pg_id=0,
            input_sizes=[],
            input_dtypes=[],
            time_discovered_completed_ns=0,
        ),
        version="2.10",
        pg_config={"": {"name": "", "desc": "", "ranks": "[0, 1]"}},
        pg_status={"0": {**status, "last_started_collective": "-1"}},
        comm_lib_version="",
    )
    write(folder, "host7_1.json", data, as_json=True)
    run = Imported(folder, into=runs)
    assert run.rows("groups", "name", "ranks") == [("0", [0, 1])]
    assert run.rows("collectives", "rank", "op", "state", "end_ns", "num_bytes") == [
        (1, "barrier", "completed", -1, -1)
    ]
    assert json.loads(run.rows("marks", "args")[0][0])["last"][0]["completed"] == 2


def test_damaged_dumps_keep_what_can_be_read(folder: Path, runs: Path) -> None:
    entries = [entry(number) for number in range(200)]
    data = pickle.dumps(dump(*entries), 2)
    folder.mkdir()
    (folder / "_dump_0").write_bytes(data[: len(data) // 2])
    text = json.dumps(dump(*entries)).encode()
    (folder / "_dump_1.json").write_bytes(text[: len(text) // 2])
    write(folder, 2, dump(entry(0), {"record_id": 1}, entry(2, state="?"), None))  # type: ignore[arg-type]
    write(folder, 3, dump(version="3.0"))
    run = Imported(folder, into=runs)
    num_rows = dict.fromkeys(run.ranks, 0)
    for (rank,) in run.rows("collectives", "rank"):
        num_rows[rank] += 1
    assert 90 < num_rows[0] < 110
    assert 90 < num_rows[1] < 110
    assert num_rows[2] == 1
    assert 3 not in num_rows
    problems = "\n".join(run.problems)
    assert "_dump_0: cut off or damaged at byte" in problems
    assert "_dump_1.json: cut off at byte" in problems
    assert "3 damaged entries left out" in problems
    assert "is a dump of version '3.0'; versions 2.x are read" in problems


def test_a_dump_in_json_whose_end_is_lost_has_the_groups_of_the_others(
    folder: Path, runs: Path
) -> None:
    """PyTorch sorts the keys: what follows the entries names their groups."""
    text = json.dumps(dump(entry(0), entry(1), entry(2)), sort_keys=True)
    folder.mkdir()
    (folder / "nccl_trace_rank_2.json").write_text(text[: text.index('"record_id": 2')])
    (folder / "nccl_trace_rank_3.json").write_text(text)
    run = Imported(folder, into=runs)
    assert [len(run.rows("collectives", "rank")), len(run.ranks)] == [5, 2]
    assert len(set(run.rows("collectives", "group_id"))) == 1
    assert any("does not describe its groups" in guess for guess in run.guesses)
    assert "nccl_trace_rank_2.json: cut off at byte" in run.problems[0]


def test_a_dump_without_entries_is_known(folder: Path, runs: Path) -> None:
    """What `_dump_nccl_trace(includeCollectives=False)` gives."""
    data = dump()
    del data["entries"]
    write(folder, 3, data)
    assert list(Imported(folder, into=runs).ranks) == [3]


def test_two_dumps_of_one_rank_and_one_without_a_number(folder: Path, runs: Path) -> None:
    write(folder, 1, dump(entry(0)))
    write(folder, "x_1", dump(entry(7)))
    (folder / "dump").write_bytes(pickle.dumps(dump(entry(9)), 4))
    run = Imported(folder, into=runs)
    assert run.rows("collectives", "rank", "seq") == [(0, 109), (1, 107)]  # the newer of the two
    assert any("its name says rank 1, as" in problem for problem in run.problems)
    assert any("has no number in its name: shown as rank 0" in guess for guess in run.guesses)


def test_absurd_values_cost_only_themselves(folder: Path, runs: Path) -> None:
    huge = 10**30
    strange = [
        entry(0, time_created_ns=-5),
        entry(1, input_sizes=[[huge, huge]], collective_seq_id=huge),
        entry(2, input_sizes="[[4]]", process_group="7", pg_id="x", profiling_name="nccl:x" * 99),
        entry(3, process_group=[["7"], {}], input_dtypes=[["BFloat16"]]),
        entry(4, "nccl:send 0->99999999"),
    ]
    write(folder, 0, dump(*strange, pg_config={"7": {"ranks": [huge]}, "8": 5}, pg_status=[1]))
    run = Imported(folder, into=runs)
    assert run.rows("collectives", "seq", "num_bytes", "peer") == [
        (2 * UNMATCHED_SEQ + 1, -1, -1),
        (103, -1, -1),
        (UNMATCHED_SEQ + 2 * 44, 16, -1),
    ]
    assert "2 damaged entries left out" in run.problems[0]


ODD = (
    None,
    True,
    5,
    5.0,
    -1,
    0,
    2**61,
    10**30,
    "",
    "5",
    "x" * 300,
    b"7",
    [],
    [None],
    ["7", 5],
    ("7",),
    ["7", "mesh_tp"],
    ["7", "mesh_tp", "x"],
    [[4, 2]],
    ((4, 2),),
    [[4, -2]],
    [[4.0]],
    [[[4]]],
    [[1] * 40],
    [[0, 5]],
    [[2**40, 2**40]],
    ["Float"],
    ["Float", "Half"],
    ["?"],
    {},
    {"7": 5},
    "nccl:recv 1->0",
    "gloo:barrier",
    "scheduled",
    "started",
    "completed",
)


@pytest.mark.parametrize("key", [key for key in entry(0) if key not in ("frames", "op_id")])
def test_entries_checked_at_once_are_as_those_looked_at_one_by_one(key: str) -> None:
    for name in ("nccl:all_reduce", "nccl:recv 1->0", "nccl:send 0->1"):
        for strange in [*({**entry(3, name), key: odd} for odd in ODD), entry(3, name)]:
            alone = Entry.of(strange)
            assert entries_of([strange]) == [alone] * (alone is not None), strange
            assert len(entries_of([entry(0), strange])) == 1 + (alone is not None)
        missing = {k: value for k, value in entry(3, name).items() if k != key}
        alone = Entry.of(missing)
        assert entries_of([missing]) == [alone] * (alone is not None)


def test_what_is_no_entry_is_left_out() -> None:
    assert entries_of([None, 5, "x", [], {}, {5: 6}, entry(0)]) == [Entry.of(entry(0))]


REAL = pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)


@REAL
@pytest.mark.parametrize(
    ("name", "layout", "empty", "late"),
    [
        ("gpu_error_1st", {"pp": 4, "dp": 2, "tp": 2}, set(), {12, 14}),
        ("lock_gil_1st", {"pp": 2, "dp": 2, "tp": 4}, {9, 14}, set()),
    ],
)
def test_real_hangs(
    name: str, layout: dict[str, int], empty: set[int], late: set[int], runs: Path
) -> None:
    imported = Imported(TRACES / "flight_recorder" / name, into=runs)
    assert set(imported.ranks) == set(range(16))
    assert {info["world_size"] for info in imported.ranks.values()} == {16}
    assert imported.ranks[0]["layout"]["axes"] == layout
    assert imported.problems == []
    assert (-1, "Fault ranks: [12, 14]") in imported.rows("log_lines", "rank", "text") or not late
    with open_run(imported.folder) as run:
        have = run.sql("SELECT DISTINCT rank FROM collectives ORDER BY rank").to_pylist()
        assert {row["rank"] for row in have} == set(range(16)) - empty
        oldest = run.sql(
            "SELECT group_id, rank, min(seq) AS seq FROM collectives WHERE peer = -1"
            " AND state <> 'completed' GROUP BY group_id, rank"
        ).to_pylist()
    behind = {
        (row["group_id"], row["rank"])
        for row in oldest
        if any(o["group_id"] == row["group_id"] and o["seq"] > row["seq"] for o in oldest)
    }
    assert {rank for _, rank in behind} >= late
    notes = dict(imported.rows("marks", "rank", "args"))
    for rank in empty:
        last = json.loads(notes[rank])["last"]
        assert len(last) == 13
        assert all(one["group_id"] for one in last)


def test_a_folder_of_other_pickles_is_refused(folder: Path, runs: Path) -> None:
    folder.mkdir()
    (folder / "_dump_0").write_bytes(pickle.dumps({"weights": [1, 2]}, 2))
    with pytest.raises(UserError, match="is a Python pickle, which could run code"):
        Imported(folder, into=runs)
