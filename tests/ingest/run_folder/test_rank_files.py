"""What ranks say of themselves, as read and as a corrected layout has it."""

from __future__ import annotations

from pathlib import Path

from ingest.readers.tables.rows import rank_info
from ingest.run_folder.rank_files import (
    RankFiles,
    corrected,
    has_recorded_layout,
    with_layout_of_others,
)
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import RankInfo

LAYOUT = ParallelLayout.from_sizes(pp=2, dp=2)


def test_they_come_in_order_and_damaged_ones_are_problems(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 3)
    builder.rank_files()
    (builder.folder / "ranks" / "0000-00001.json").write_text("no json")
    ranks, problems = RankFiles(builder.folder).read()
    assert [info["rank"] for info in ranks] == [0, 2]
    assert len(problems) == 1
    assert "0000-00001.json" in problems[0]


def test_a_rank_of_an_import_follows_a_correction() -> None:
    info = rank_info(3, world_size=4)
    assert not has_recorded_layout(info)
    fixed = corrected(info, LAYOUT)
    assert (fixed["coords"], fixed["layout"]) == (LAYOUT.coords(3), LAYOUT.to_json())
    assert info["layout"] is None


def test_ranks_outside_the_layout_stay(tmp_path: Path) -> None:
    info = rank_info(9, world_size=16)
    assert corrected(info, LAYOUT) is info


def of_hooks(rank: int, layout: ParallelLayout | None, world_size: int = 4) -> RankInfo:
    info = rank_info(rank, world_size=world_size)
    info["hooks"] = {"level": "layers"}
    info["layout"] = None if layout is None else layout.to_json()
    return info


def test_a_rank_that_did_not_find_the_layout_has_that_of_the_others() -> None:
    infos = [of_hooks(rank, None if rank == 3 else LAYOUT) for rank in range(4)]
    fixed = with_layout_of_others(infos)[3]
    assert (fixed["coords"], fixed["layout"]) == (LAYOUT.coords(3), LAYOUT.to_json())
    assert infos[3]["layout"] is None


def test_where_the_others_differ_or_are_of_another_job_it_stays_unknown() -> None:
    other = ParallelLayout.from_sizes(pp=4)
    infos = [of_hooks(0, LAYOUT), of_hooks(1, other), of_hooks(2, None)]
    assert with_layout_of_others(infos)[2]["layout"] is None
    infos = [of_hooks(0, LAYOUT), of_hooks(2, None, world_size=8)]
    assert with_layout_of_others(infos)[1]["layout"] is None
