"""What `rankscope info` prints about a run, and how its layout is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.run import open_run
from ingest.summary import info, layout_from
from tests.runs_builder import RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout


def test_a_small_run(tmp_path: Path) -> None:
    with open_run(two_rank_run(tmp_path / "job").folder) as run:
        summary = info(run)
    assert (summary["run"], summary["format"], summary["num_ranks"]) == ("job", "native", 2)
    assert (summary["steps"], summary["num_spans"], summary["attempts"]) == ([0, 1, 2], 30, 1)
    assert summary["problems"] == []


@pytest.mark.parametrize(
    ("source", "known_from"),
    [("kineto", "process groups"), ("megascan", "coordinates"), ("rankscope_trace", "job")],
)
def test_a_layout_that_no_hooks_recorded_is_known_by_its_format(
    tmp_path: Path, source: str, known_from: str
) -> None:
    layout = ParallelLayout.from_sizes(dp=2)
    builder = RunBuilder(tmp_path / "run", 2, layout, source=source)
    builder.rank_files()
    builder.span(0, 0, "forward", 0, 1)
    builder.publish()
    with open_run(builder.folder) as run:
        assert layout_from(run) == known_from
