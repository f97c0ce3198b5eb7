"""JSON files of a run folder, checked once: types, ranges, layouts, versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.run_folder.run_files import (
    dense_decoder,
    is_run_folder,
    read_correction,
    read_rank_info,
    read_run_info,
)
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout


@pytest.fixture
def run(tmp_path: Path) -> Path:
    builder = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(dp=2))
    builder.rank_files()
    return builder.folder


def test_sound_files_are_read(run: Path) -> None:
    assert is_run_folder(run)
    assert read_run_info(run)["run"] == "run"
    assert read_rank_info(run / "ranks" / "0000-00001.json")["coords"] == {"dp": 1}
    assert read_correction(run) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "9.0"}, "upgrade rankscope"),
        ({"created_ns": "soon"}, "run.json"),
        ({"clock": None}, "run.json"),
    ],
)
def test_a_damaged_file_is_a_sentence(run: Path, change: dict[str, object], message: str) -> None:
    data = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(data | change))
    with pytest.raises(UserError, match=message):
        read_run_info(run)


def test_a_rank_file_whose_world_cannot_be_is_refused(run: Path) -> None:
    path = run / "ranks" / "0000-00001.json"
    data = json.loads(path.read_text())
    data["layout"]["axes"] = [["dp", 1 << 40]]
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match=r"0000-00001\.json"):
        read_rank_info(path)


def test_a_rank_that_began_when_no_job_can_is_refused(run: Path) -> None:
    path = run / "ranks" / "0000-00001.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"started_ns": 2**63 - 1}))
    with pytest.raises(UserError, match=r"0000-00001\.json .*started_ns"):
        read_rank_info(path)


def test_sizes_of_a_decoder_are_all_known_or_none(run: Path) -> None:
    info = read_run_info(run)
    assert set(dense_decoder(info).values()) == {None}
