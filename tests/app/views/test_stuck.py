"""What the page Stuck shows, of hand-made answers and of runs."""

from __future__ import annotations

from pathlib import Path

from app.views.stuck import of_tables, stuck_of
from ingest.run import open_run
from tests.diagnosis.stuck.stuck_tables import AT_NS, IN_CODE, entered, look, tables
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
    (stopped,) = of_tables(tables(WAIT, [*others, look(2, None, process="T")])).commands
    assert stopped["command"] == "kill -CONT 4242"
    (gone,) = of_tables(tables(WAIT, [*others, look(2, None, process="gone")])).commands
    assert "dmesg" in gone["command"]


def test_ranks_that_went_on_and_a_job_that_finished_are_not_stuck() -> None:
    looks = [*(look(r) for r in (0, 1, 3)), look(2, IN_CODE, has_moved=True)]
    assert of_tables(tables(WAIT, looks)).state == "moved"
    signs = [{"rank": rank, "status": "finished"} for rank in range(4)]
    looks = [look(rank) for rank in range(4)]
    assert of_tables(tables(WAIT, looks, signs=signs)).state == "ended"


def test_a_run_that_nobody_looked_at(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "two", num_steps=4)
    with open_run(tmp_path / "two") as run:
        assert stuck_of(run, None).state == "none"
