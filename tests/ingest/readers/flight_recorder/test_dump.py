"""What one dump holds: pickled or in JSON, whole, cut off, or no dump at all."""

from __future__ import annotations

import json
import pickle  # noqa: TID251  # to make dumps
from pathlib import Path
from typing import Any

import pytest

from ingest.readers.flight_recorder.dump import Dump, read_dump
from ingest.readers.parsing.sources import sources
from ingest.run_folder.run_writer import RunWriter
from tests.ingest.readers.flight_recorder.dumps import dump, entry, write


def found(path: Path) -> tuple[Dump | None, list[str]]:
    """What the file holds, and what is wrong with it."""
    run = path.parent / "run"
    run.mkdir(exist_ok=True)
    writer = RunWriter(run)
    opened = sources([path], lambda _: None)  # which closes a file when the next one is taken
    return read_dump(next(opened), writer), writer.found.problems


@pytest.mark.parametrize("as_json", [False, True])
def test_a_dump_has_entries_in_order_groups_and_what_these_did_last(
    tmp_path: Path, as_json: bool
) -> None:
    path = write(tmp_path, 3, dump(entry(2), entry(0), entry(1)), as_json)
    one, problems = found(path)
    assert one is not None
    assert (one.name, one.version, one.rank, problems) == (str(path), "2.9", 3, [])
    assert [each.record_id for each in one.entries] == [0, 1, 2]
    assert {name: group.ranks for name, group in one.groups.items()} == {
        "0": (0, 1, 2, 3),
        "7": (2, 3),
    }
    assert one.status[1] == {"enqueued": 105, "started": -1, "completed": 100}
    assert not one.lost_its_groups


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_7", 7),
        ("comm_lib_trace_rank_7.json", 7),
        ("_dump_7", 7),
        ("nccl_trace_rank_node3_7", 7),
        ("nccl_trace_rank_10.0.0.12_7", 7),
        ("nccl_trace_rank_n1.cluster4.org_7.pkl", 7),
        ("dump", None),
        ("dump_20261128", None),  # a date: no job has so many ranks
    ],
)
def test_ranks_of_names_with_hosts_in_them(tmp_path: Path, name: str, rank: int | None) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(dump(entry(0)), 2))
    one, _ = found(tmp_path / name)
    assert one is not None
    assert one.rank == rank


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (pickle.dumps(dump(version="3.0"), 2), "is a dump of version '3.0'; versions 2.x are read"),
        (json.dumps(dump(version="1.5")).encode(), "is a dump of version '1.5'"),
        (pickle.dumps({"weights": [1]}, 2), "holds no dump"),
        (pickle.dumps([1, 2], 4), "holds no dump"),
        (pickle.dumps(Path("a"), 2), "refused, and nothing in it was run"),
        (b'{"weights": [1]}', "holds no dump"),
    ],
)
def test_what_is_no_dump_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "dump_0").write_bytes(content)
    one, problems = found(tmp_path / "dump_0")
    assert one is None
    assert len(problems) == 1
    assert problem in problems[0]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_dump_that_was_cut_off_keeps_what_came_before(tmp_path: Path, as_json: bool) -> None:
    """PyTorch sorts the keys of JSON, so the version and the groups come behind the entries."""
    data = dump(*map(entry, range(50)))
    path = write(tmp_path, 2, dict(sorted(data.items())) if as_json else data, as_json)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    one, problems = found(path)
    assert one is not None
    assert 20 < len(one.entries) < 30
    assert [each.record_id for each in one.entries] == list(range(len(one.entries)))
    assert one.lost_its_groups == as_json
    assert len(problems) == 1
    assert "cut off" in problems[0]


def test_damaged_entries_are_counted_and_left_out(tmp_path: Path) -> None:
    damaged: list[Any] = [{"record_id": 1}, entry(2, state="?"), None]
    one, problems = found(write(tmp_path, 2, dump(entry(0), *damaged)))
    assert one is not None
    assert [each.record_id for each in one.entries] == [0]
    assert problems == [f"{one.name}: 3 damaged entries left out"]


def test_ranks_and_numbers_of_another_kind_are_unknown(tmp_path: Path) -> None:
    config = {
        "0": {"desc": "default_pg", "ranks": [0, 1]},
        "7": {"desc": "tp", "ranks": "[0, 'x']"},
        "8": {"desc": "dp", "ranks": "[[["},
        "9": 5,
    }
    status = {
        "0": {"last_enqueued_collective": "12", "last_completed_collective": 10**30},
        "x": {},
        "1": 7,
    }
    one, _ = found(write(tmp_path, 0, dump(entry(0), pg_config=config, pg_status=status)))
    assert one is not None
    ranks = {name: group.ranks for name, group in one.groups.items()}
    assert ranks == {"0": (0, 1), "7": (), "8": ()}
    assert one.status == {0: {"enqueued": 12, "started": -1, "completed": -1}}


def test_the_one_group_of_gloo_has_the_name_of_its_entries(tmp_path: Path) -> None:
    """PyTorch describes it without a name."""
    config = {"": {"name": "", "desc": "", "ranks": "[0, 1]"}}
    one, _ = found(write(tmp_path, 1, dump(entry(0, process_group=["0", ""]), pg_config=config)))
    assert one is not None
    assert {name: group.ranks for name, group in one.groups.items()} == {"0": (0, 1)}
