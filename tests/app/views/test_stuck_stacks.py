"""Groups of equal stacks, their tree, and where they are on the grid."""

from __future__ import annotations

import pyarrow as pa

from app.views.stuck_stacks import MOST_GROUPS, grid_rows, merged_stacks, stack_groups
from diagnosis.stuck.evidence import Look
from tests.diagnosis.stuck.stuck_tables import IN_ALL_REDUCE, IN_CODE, look


def looks(*stacks: str | None, process: str = "S") -> dict[int, Look]:
    rows = [look(rank, stack, process=process) for rank, stack in enumerate(stacks)]
    return {row["rank"]: Look.of(row) for row in rows}


def places(count: int, **columns: list[object]) -> pa.Table:
    rows = {"rank": list(range(count)), "pp": [None] * count, "host": [None] * count}
    return pa.table(rows | columns)


def test_equal_stacks_are_one_group_whatever_their_lines() -> None:
    other_line = IN_ALL_REDUCE.replace(":40", ":39")
    groups = stack_groups(looks(IN_ALL_REDUCE, other_line, IN_CODE))
    assert [group.ranks for group in groups] == [(2,), (0, 1)]
    assert groups[1].frames[-1] == "step job/train.py:39, 40"


def test_ranks_without_a_stack_are_grouped_by_their_state() -> None:
    known = looks(None, IN_CODE, IN_CODE)
    stopped = looks(None, process="T")
    assert [(group.ranks, group.activity) for group in stack_groups(known | stopped)] == [
        ((0,), "stopped by a signal"),
        ((1, 2), "code"),
    ]
    assert stack_groups(known)[0].activity == "unknown, no stack was read"


def test_the_branch_of_the_fewest_ranks_comes_first() -> None:
    trunk = "\nmain job/train.py:90"
    (root,) = merged_stacks(looks(*[IN_ALL_REDUCE + trunk] * 3, IN_CODE + trunk))
    assert (root["ranks"], root["num_ranks"]) == ("ranks 0, 1, 2 and 3", 4)
    assert [frame["text"] for frame in root["frames"]] == [
        "main job/train.py:90",
        "step job/train.py:31, 40",
    ]
    few, many = root["branches"]
    assert (few["ranks"], [frame["text"] for frame in few["frames"]]) == (
        "rank 3",
        ["prepare job/train.py:12"],
    )
    assert [frame["is_users"] for frame in many["frames"]] == [False, False]
    assert many["branches"] == ()


def test_a_stack_that_ends_where_others_go_on() -> None:
    (root,) = merged_stacks(
        looks("main job/train.py:9", "prepare job/train.py:3\nmain job/train.py:9")
    )
    assert [branch["ranks"] for branch in root["branches"]] == ["rank 1"]


def test_rows_of_the_grid_are_stages_else_hosts_else_some_ranks() -> None:
    groups = stack_groups(looks(IN_ALL_REDUCE, IN_ALL_REDUCE, IN_CODE))
    rows = grid_rows(groups, places(4, pp=[None, 0, 1, 0]))
    assert [row["name"] for row in rows] == ["pp 0", "pp 1", "pp ?"]
    assert [cell["group"] for row in rows for cell in row["cells"]] == [1, None, 0, 1]
    rows = grid_rows(groups, places(4, host=["a", "a", "b", "b"]))
    assert [(row["name"], len(row["cells"])) for row in rows] == [("a", 2), ("b", 2)]
    rows = grid_rows(groups, places(4, host=["n10", "n10", "n9", "n9"]))
    assert [row["name"] for row in rows] == ["n9", "n10"]
    rows = grid_rows(groups, places(40))
    assert [row["name"] for row in rows] == ["from rank 0", "from rank 16", "from rank 32"]


def test_equal_neighbours_of_a_large_job_are_one_cell() -> None:
    groups = stack_groups(looks(*[IN_ALL_REDUCE] * 700, IN_CODE, *[IN_ALL_REDUCE] * 299))
    rows = grid_rows(groups, places(1000, pp=[rank // 500 for rank in range(1000)]))
    assert [[(cell["rank"], cell["num_ranks"]) for cell in row["cells"]] for row in rows] == [
        [(0, 500)],
        [(500, 200), (700, 1), (701, 299)],
    ]


def test_only_the_smallest_groups_have_a_letter() -> None:
    stacks = [f"f{number} job/train.py:1" for number in range(MOST_GROUPS + 1)]
    rows = grid_rows(stack_groups(looks(*stacks)), places(len(stacks)))
    cells = [cell["group"] for row in rows for cell in row["cells"]]
    assert cells == [*range(MOST_GROUPS), None]
