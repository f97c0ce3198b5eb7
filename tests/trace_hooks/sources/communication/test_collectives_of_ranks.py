"""Communication of four real ranks: every instance once, numbered the same way on all members."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.forks import fork, succeeded
from tests.trace_hooks.processes import environment

pytestmark = pytest.mark.torch

JOB = Path(__file__).with_name("collectives_job.py")
WORLD = 4
EXPLICIT = [
    ("all_reduce", 32),
    ("broadcast", 32),
    ("reduce", 32),
    ("all_gather", 32),
    ("all_gather", 32),
    ("all_gather", 32),
    ("reduce_scatter", 32),
    ("reduce_scatter", 32),
    ("all_to_all", 32),
    ("gather", 32),
    ("scatter", 32),
    ("barrier", 0),
    ("all_reduce", 32),
]
"""(op, bytes of a member's input, of a scatter's output) of explicit_ops."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the recorder of each rank held."""
    folder = tmp_path_factory.mktemp("collectives")
    succeeded([fork(folder / "job", [str(JOB), str(folder)], environment(folder))])
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(WORLD)]


def rows_of(rank: dict[str, Any], section: str) -> list[dict[str, Any]]:
    """Rows of the step a section ran as, whenever they were written."""
    step = rank["sections"][section]["step"]
    written = [row for part in rank["sections"].values() for row in part["rows"]]
    return sorted(
        (row for row in [*written, *rank["after_stop"]] if row["step"] == step),
        key=lambda row: row["enqueue_ns"],
    )


def is_collective(row: dict[str, Any]) -> bool:
    return row["op"] not in ("send", "recv") and row["seq"] >= 0


SOUND = (
    "explicit",
    "uneven",
    "messages",
    "twins",
    "refused",
    "functional",
    "fsdp_tp",
    "ddp",
    "compiled",
    "unwaited",
)
"""Sections whose hooks were all working."""


@pytest.mark.parametrize("rank", range(WORLD))
def test_each_function_is_one_row_with_its_bytes(ranks: list[dict[str, Any]], rank: int) -> None:
    rows = rows_of(ranks[rank], "explicit")
    assert [(row["op"], row["num_bytes"]) for row in rows] == list(EXPLICIT)
    assert {row["source"] for row in rows} == {"wrapper"}
    assert {row["state"] for row in rows} == {"completed"}
    assert {row["dtype"] for row in rows if row["op"] != "barrier"} == {"float32"}
    assert all(row["enqueue_ns"] <= row["start_ns"] < row["end_ns"] for row in rows)
    seqs = [row["seq"] for row in rows]
    assert seqs == list(range(seqs[0], seqs[0] + len(rows)))


@pytest.mark.parametrize("section", SOUND)
def test_members_agree_on_number_and_operation(ranks: list[dict[str, Any]], section: str) -> None:
    members = {g["group_id"]: g["ranks"] for rank in ranks for g in rank["groups"]}
    seen = [
        {
            (row["group_id"], row["seq"]): row["op"]
            for row in rows_of(rank, section)
            if is_collective(row)
        }
        for rank in ranks
    ]
    instances = set().union(*seen)
    assert instances
    for instance in instances:
        assert len({seen[rank].get(instance) for rank in members[instance[0]]}) == 1, instance


def test_nothing_is_recorded_twice(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        rows = [row for section in SOUND for row in rows_of(rank, section)]
        counted = Counter(
            (
                row["group_id"],
                row["seq"],
                row["op"] if row["peer"] >= 0 else "",
                row["peer"],
                row["tag"],
            )
            for row in rows
            if row["seq"] >= 0
        )
        assert {key: n for key, n in counted.items() if n > 1} == {}


def test_every_message_has_its_other_end(ranks: list[dict[str, Any]]) -> None:
    ends: dict[str, list[tuple[int, ...]]] = {"send": [], "recv": []}
    for me, rank in enumerate(ranks):
        for row in rows_of(rank, "messages"):
            if row["op"] in ends:
                way = (me, row["peer"]) if row["op"] == "send" else (row["peer"], me)
                ends[row["op"]].append((*way, row["tag"], row["seq"], row["num_bytes"]))
    assert sorted(ends["send"]) == sorted(ends["recv"])
    ring = [(rank, (rank + 1) % WORLD, 0, 0, 16) for rank in range(WORLD)]
    assert sorted(ends["send"]) == sorted([*ring, (0, 1, 7, 0, 16), (0, 1, 7, 1, 16)])


def test_groups_of_the_same_ranks_are_distinguished(ranks: list[dict[str, Any]]) -> None:
    by_name = [{g["name"]: g["group_id"] for g in rank["groups"]} for rank in ranks]
    shared = set.intersection(*({(n, i) for n, i in names.items()} for names in by_name))
    everyone = {g["name"] for g in ranks[0]["groups"] if g["ranks"] == [0, 1, 2, 3]}
    assert len(everyone) == 3
    assert everyone <= {name for name, _ in shared}
    assert len({group for _, group in shared}) == len(shared)
    for rank in ranks:  # entered in another order on odd ranks
        assert len({row["group_id"] for row in rows_of(rank, "twins")}) == 2


def test_fsdp2_and_tensor_parallel_counts(ranks: list[dict[str, Any]]) -> None:
    steps, blocks = 2, 2
    for rank in ranks:
        axis = {g["group_id"]: g["axis"] for g in rank["groups"]}
        found = Counter(
            (axis[row["group_id"]], row["op"], row["source"])
            + ((row["num_bytes"],) if row["op"] != "scatter" else ())
            for row in rows_of(rank, "fsdp_tp")
        )
        assert found == {
            ("tp", "scatter", "wrapper"): 2 * blocks,  # parallelize_module, once
            ("dp", "all_gather", "wrapper", 256): steps * blocks * 2,  # forward and backward
            ("dp", "reduce_scatter", "wrapper", 512): steps * blocks,
            # each block's output; the input's gradient of the second one only
            ("tp", "all_reduce", "functional", 128): steps * (blocks + 1),
        }


def test_ddp_comes_from_the_flight_recorder(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        rows = rows_of(rank, "ddp")
        assert {(row["source"], row["state"], row["end_ns"]) for row in rows} == {
            ("flight_recorder", "completed", -1)
        }
        reduced = [row["num_bytes"] for row in rows if row["op"] == "all_reduce"]
        assert reduced == [1024, 1024]  # two steps of one bucket
        assert rank["sections"]["ddp"]["spans"] == []


def test_compiled_code_stays_whole_and_is_seen(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["sections"]["compiled"]["value"] == [16.0, 16.0]
    rows = rows_of(ranks[0], "compiled")
    assert [(row["op"], row["num_bytes"]) for row in rows] == [("all_reduce", 16)] * 2
    assert [(row["source"], row["state"]) for row in rows] == [("functional", "completed")] * 2
    assert all(row["end_ns"] > row["start_ns"] for row in rows)
    assert len(ranks[0]["sections"]["compiled"]["spans"]) == 2  # the waits


def test_functional_collectives_and_object_variants(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        rows = rows_of(rank, "functional")
        assert [(row["op"], row["num_bytes"]) for row in rows] == [
            ("all_reduce", 32),
            ("all_gather", 32),
            ("reduce_scatter", 32),
            ("all_to_all", 32),
            ("all_reduce", 64),
        ]
        assert {row["source"] for row in rows} == {"functional"}
        assert all(row["end_ns"] > row["start_ns"] for row in rows)
        uneven = [row["op"] for row in rows_of(rank, "uneven")]
        # an object gather is a gather of sizes and one of bytes; a coalesced pair is one
        assert uneven == [
            "monitored_barrier",
            "all_gather",
            "all_gather",
            "all_reduce",
            "all_reduce",
        ]


def test_one_blocking_span_an_instance_on_its_axis(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        axis = {g["group_id"]: g["axis"] for g in rank["groups"]}
        for section in ("explicit", "uneven", "messages", "functional", "fsdp_tp"):
            spans = rank["sections"][section]["spans"]
            rows = rows_of(rank, section)
            waited = Counter(
                (row["group_id"], row["seq"], row["peer"], row["num_bytes"]) for row in rows
            )
            assert Counter(tuple(span["extra"][:4]) for span in spans) == waited
            for span in spans:
                kind = {"tp": "tp_comm", "dp": "dp_comm"}.get(axis[span["extra"][0]], "other_comm")
                assert span["kind"] == kind
                assert span["dur_ns"] > 0


def test_the_ring_knew_of_each_instance_before(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        for section in ("explicit", "messages", "functional", "fsdp_tp"):
            rows = {
                (row["group_id"], row["seq"], row["op"], row["peer"], row["tag"]): row["enqueue_ns"]
                for row in rows_of(rank, section)
            }
            ring = rank["sections"][section]["ring"]
            assert len(ring) == len(rows)
            for group, seq, op, _, _, peer, tag, _, time_ns in ring:
                if seq >= 0:  # a receive from anyone has its number later
                    assert rows[group, seq, op, peer, tag] == time_ns


def test_a_refused_call_fails_as_without_hooks(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        failed, worked = rows_of(rank, "refused")
        assert rank["sections"]["refused"]["value"] == rank["plain"]["refused"]
        assert (failed["state"], failed["seq"], failed["op"]) == ("failed", -1, "all_gather")
        assert worked["state"] == "completed"


def test_what_nobody_waited_for_has_no_end(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        (dropped,) = rows_of(rank, "unwaited")
        assert (dropped["state"], dropped["end_ns"]) == ("started", -1)
        assert ("started", -1) in {(row["state"], row["end_ns"]) for row in rank["after_stop"]}


def test_training_is_bitwise_the_same(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        hooked = {name: rank["sections"][name]["value"] for name in rank["plain"]}
        assert hooked == rank["plain"]


def test_an_error_in_any_hook_changes_no_result(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        injected = rank["sections"]["failing"]["value"]
        assert len(injected) == 11
        for name, outcome in injected.items():
            assert outcome == {"results": [[20.0] * 3] * 2, "errors": 1}, name


def test_uninstall_restores_what_was_there(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert len(rank["restored"]) > 30
        assert all(rank["restored"])


def test_the_mesh_is_the_layout(ranks: list[dict[str, Any]]) -> None:
    assert {tuple(rank["layouts"]) for rank in ranks} == {(None, "dp 2 x tp 2")}
