"""The preview of a layout: coordinates, and whether the process groups fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.views.ranks.layout_preview import layout_preview
from ingest.layout_correction import layout_of
from ingest.run import open_run
from tests.runs_builder import RunBuilder


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([], "No recorded process group"),
        ([[0, 1, 2, 3]], "span the whole job"),
        ([[0, 1], [0, 2]], "fit: 1 along dp, 1 along tp"),
        ([[0, 1], [0, 3]], "1 run along no axis of this layout; of the others, 1 along tp"),
    ],
)
def test_process_groups_show_whether_it_fits(
    tmp_path: Path, groups: list[list[int]], sentence: str
) -> None:
    builder = RunBuilder(tmp_path / "run", 4)
    for number, ranks in enumerate(groups):
        builder.group(number, ranks, "unknown")
    for rank in range(4):
        builder.step(rank, 0, 0, 100)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        preview = layout_preview(run, layout_of({"dp": 2, "tp": 2}))
    assert sentence in preview.groups_note
    assert preview.places[1] == (1, {"dp": 0, "tp": 1})
