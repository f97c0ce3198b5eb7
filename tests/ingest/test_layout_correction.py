"""A layout corrected by hand: checked, kept next to the run, undone; never one the job recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.layout_correction import correct, layout_of, undo
from ingest.run import open_run
from ingest.summary import layout_from
from tests.runs_builder import RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout


@pytest.mark.parametrize(
    ("sizes", "order", "sentence"),
    [
        ({"xp": 2}, "pp-dp", "xp is not a parallel axis; known: "),
        ({"dp": 0}, "pp-dp", "axis dp has size 0; give a whole number from 1 to 1048576"),
        ({"tp": 10**23}, "pp-dp", "give a whole number from 1 to 1048576"),
        ({"dp": 2}, "pp-xp", "'xp' in the order 'pp-xp' is not an axis"),
        ({"dp": 2, "dp_shard": 2}, "pp-dp", "give either dp or dp_replicate x dp_shard"),
        ({"dp": 2, "ep": 3}, "pp-dp", "ep x etp = 3 does not divide"),
    ],
)
def test_a_wrong_layout_is_one_sentence(sizes: dict[str, int], order: str, sentence: str) -> None:
    with pytest.raises(UserError) as raised:
        layout_of(sizes, order)
    assert sentence in str(raised.value)


def test_axes_of_size_one_are_left_out() -> None:
    assert layout_of({"pp": 2, "tp": 1}) == ParallelLayout.from_sizes(pp=2)


def test_an_import_is_corrected_and_back(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 2, source="kineto")
    builder.span(0, 0, "forward", 0, 1)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        with pytest.raises(UserError, match="the job had 2"):
            correct(run, layout_of({"dp": 4}))
        correct(run, layout_of({"dp": 2}))
        assert (str(run.layout()), layout_from(run)) == ("dp 2", "hand")
        assert undo(run)
        assert run.layout() is None
        assert not undo(run)


def test_what_the_job_recorded_stays(tmp_path: Path) -> None:
    builder = two_rank_run(tmp_path / "run")
    builder.layout = ParallelLayout.from_sizes(dp=2)
    builder.rank_files()
    for path in (builder.folder / "ranks").iterdir():
        path.write_text(path.read_text().replace('"hooks": {}', '"hooks": {"modules": {}}'))
    with open_run(builder.folder) as run, pytest.raises(UserError, match="recorded by hooks"):
        correct(run, layout_of({"pp": 2}))
