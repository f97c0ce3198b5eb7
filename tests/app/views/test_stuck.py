"""What the page Stuck shows, of hand-made answers and of runs."""

from __future__ import annotations

from pathlib import Path

from app.views.stuck import of_tables, stuck_of
from ingest.run import open_run
from tests.diagnosis.stuck.stuck_tables import AT_NS, IN_CODE, SINCE_NS, entered, look, tables
from tests.runs_builder import two_rank_run

WAIT = [entered(rank, 31) for rank in (0, 1, 3)] + [entered(2, 30, "completed")]


def test_the_rank_that_is_waited_for_comes_first() -> None:
    found = of_tables(tables(WAIT, [*(look(r) for r in (0, 1, 3)), look(2, IN_CODE)]))
    assert (found.state, found.at_ns) == ("stuck", AT_NS)
    assert (
        found.status
        == "Ranks 0, 1 and 3 wait for rank 2 in all_reduce 31 of group g7 (dp) for 9 s."
    )
    assert [(row["rank"], row["role"], row["in"]) for row in found.ranks] == [
        (2, "awaited", ""),
        *[(rank, "waits", "all_reduce 31") for rank in (0, 1, 3)],
    ]
    assert found.ranks[0]["frame"] == "prepare job/train.py:12"
    (root,) = found.tree
    assert (root["rank"], root["branches"][0]["rank"]) == ("rank 2", "ranks 0, 1 and 3")
    assert [one["ranks"] for one in found.stacks] == ["rank 2", "ranks 0, 1 and 3"]
    (command,) = found.commands
    assert command["command"] == "py-spy dump --native --pid 4242"


def test_a_chain_is_a_branch_of_its_own() -> None:
    groups = {7: [0, 1, 2, 3], 8: [2, 3]}
    rows = [entered(rank, 31) for rank in (0, 1)]
    rows += [entered(rank, 30, "completed") for rank in (2, 3)]
    rows += [entered(2, 4, group_id=8), entered(3, 3, "completed", group_id=8)]
    (root,) = of_tables(tables(rows, [look(r) for r in range(4)], groups)).tree
    assert root["rank"] == "rank 3"
    names = [branch["rank"] for branch in root["branches"]]
    assert names == ["ranks 0 and 1", "rank 2"]
    assert root["branches"][1]["branches"] == []  # 0 and 1 stand above already


def test_a_stopped_and_a_lost_rank_have_commands_of_their_own() -> None:
    others = [look(r) for r in (0, 1, 3)]
    status, go_on = of_tables(tables(WAIT, [*others, look(2, None, process="T")])).commands
    assert status["command"].endswith("/proc/4242/status")
    assert go_on["command"] == "kill -CONT 4242"
    (gone,) = of_tables(tables(WAIT, [*others, look(2, None, process="gone")])).commands
    assert "dmesg" in gone["command"]


def test_roots_with_the_same_waits_are_one_line() -> None:
    rows = [entered(rank, 31) for rank in (0, 1)]
    rows += [entered(rank, 30, "completed") for rank in (2, 3)]
    (root,) = of_tables(tables(rows, [look(r) for r in range(4)])).tree
    assert root["rank"] == "ranks 2 and 3"
    assert [(branch["rank"], branch["op"]) for branch in root["branches"]] == [
        ("ranks 0 and 1", "all_reduce 31 of group g7 (dp)")
    ]


def test_ranks_that_wait_for_each_other_are_a_circle() -> None:
    groups = {7: [0, 1], 8: [0, 1]}
    rows = [entered(0, 5), entered(1, 4, "completed")]
    rows += [entered(1, 9, group_id=8), entered(0, 8, "completed", group_id=8)]
    found = of_tables(tables(rows, [look(0), look(1)], groups))
    (circle,) = found.circles
    assert found.tree == ()
    assert [(link["rank"], link["waits_for"], link["op"]) for link in circle] == [
        (0, 1, "all_reduce 5 of group g7 (dp)"),
        (1, 0, "all_reduce 9 of group g8 (dp)"),
    ]
    assert [one["command"] for one in found.commands] == ["py-spy dump --native --pid 4242"] * 2


def test_an_operation_that_does_not_complete_asks_for_the_connections() -> None:
    found = of_tables(tables([entered(rank, 31) for rank in range(4)], [look(r) for r in range(4)]))
    assert found.state == "stuck"
    assert [row["in"] for row in found.ranks] == ["all_reduce 31"] * 4
    assert found.commands[0]["command"] == "ss -tniop | grep -A1 'pid=4242,'"


def test_ranks_in_an_operation_that_does_not_complete_are_not_blamed() -> None:
    groups = {7: [0, 1, 2, 3], 8: [2, 3]}
    rows = [entered(rank, 31) for rank in (0, 1)]
    rows += [entered(rank, 30, "completed") for rank in (2, 3)]
    rows += [entered(rank, 9, group_id=8) for rank in (2, 3)]
    found = of_tables(tables(rows, [look(r) for r in range(4)], groups))
    (root,) = found.tree
    assert (root["rank"], root["blamed"]) == ("ranks 2 and 3", False)
    assert {row["role"] for row in found.ranks} == {"waits"}
    assert found.commands[0]["command"].startswith("ss ")


def test_a_rank_that_entered_something_else_is_looked_at() -> None:
    rows = [entered(rank, 31, op="broadcast" if rank == 2 else "all_reduce") for rank in range(4)]
    found = of_tables(tables(rows, [look(r) for r in range(4)]))
    assert (found.ranks[0]["rank"], found.ranks[0]["role"]) == (2, "awaited")
    assert [one["what"] for one in found.commands] == ["All stacks of rank 2, on node0"]


def test_a_rank_in_storage_has_its_open_files_listed() -> None:
    opening = look(2, "save job/train.py:8", call="wait_for_partner")
    found = of_tables(tables(WAIT, [*(look(r) for r in (0, 1, 3)), opening]))
    assert found.commands[0]["command"] == "ls -l /proc/4242/fd"


def test_what_a_slow_rank_does_stands_below_the_sentence() -> None:
    found = of_tables(tables(WAIT, [*(look(r) for r in (0, 1, 3)), look(2, IN_CODE)]))
    assert found.reasons == ("Rank 2: its main thread is in prepare job/train.py:12.",)
    assert found.since_ns == SINCE_NS
    unread = of_tables(tables(WAIT, [*(look(r) for r in (0, 1, 3)), look(2, None)]))
    assert unread.reasons == ()


def test_ranks_that_went_on_and_a_job_that_finished_are_not_stuck() -> None:
    looks = [*(look(r) for r in (0, 1, 3)), look(2, IN_CODE, has_moved=True)]
    assert of_tables(tables(WAIT, looks)).state == "moved"
    signs = [{"rank": rank, "status": "finished"} for rank in range(4)]
    looks = [look(rank) for rank in range(4)]
    assert of_tables(tables(WAIT, looks, signs=signs)).state == "ended"


def test_a_run_that_nobody_looked_at(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "two", num_steps=4)
    with open_run(tmp_path / "two") as run:
        found = stuck_of(run, None)
    assert (found.state, found.heard_ns) == ("none", None)
    assert found.checked == "No rank has sent a heartbeat: what the ranks do is not known."
