"""Which keys are files of a run."""

from __future__ import annotations

import pytest

from ingest.object_store.contents import is_of_run, is_run_name
from sample_traces import RECORDED


def test_every_file_of_a_recorded_run_is_one() -> None:
    for run in (path.parent for path in RECORDED.glob("*/run.json")):
        files = [path.relative_to(run) for path in run.rglob("*") if path.is_file()]
        assert all(is_of_run(str(path)) for path in files if path.parts[0] != "index")


@pytest.mark.parametrize(
    "key",
    [
        "../run.json",
        "segments/../run.json",
        "segments//a.parquet",
        "/segments/a.parquet",
        "segments/.a.parquet",
        "segments/a.parquet/b",
        "segments/deeper/a.parquet",
        "segments/a\n.parquet",
        "segments/\u0661.parquet",
        "segments/" + "a" * 300 + ".parquet",
        "segments/bundle-0000-00000-00000000.zip.tmp",
        "compacted/bundle-0000-00000-00000000.zip",
        "ranks/.json",
        "ranks/0000-00000.json/../../../x",
        ".mirror/objects.jsonl",
        "index/lock",
        "job-secret",
        "",
    ],
)
def test_any_other_key_is_none(key: str) -> None:
    assert not is_of_run(key)


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a\\b", "a\0", "a" * 300])
def test_names_that_no_folder_of_a_run_has(name: str) -> None:
    assert not is_run_name(name)
    assert is_run_name("my run-1 \u00e9")
