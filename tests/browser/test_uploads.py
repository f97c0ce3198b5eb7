"""Uploads as people do them: files, folders, real traces; each ends on a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.support import runs_made
from tests.browser.support.tabs import Tab
from tests.browser.support.uploading import (
    FILES,
    FOLDER,
    drop,
    imported_run,
    see_all_ranks,
    wait_for_text,
)
from tests.folders import NO_TRACES, TRACES


def test_a_file_becomes_a_run(tab: Tab, tmp_path: Path) -> None:
    file = runs_made.kineto_file(tmp_path / "uploaded.json", rank=1)
    tab.open()
    tab.page.locator(FILES).set_input_files(file)
    run = imported_run(tab)
    assert "uploaded" in run
    tab.page.locator(".upload.done a").first.click()
    tab.page.wait_for_url(f"**/run/{run}/overview")


def test_something_else_is_refused_in_words(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("these are no traces")
    tab.open()
    tab.page.locator(FILES).set_input_files(file)
    wait_for_text(tab, "notes.txt is")
    assert "notes.txt" in tab.page.locator(".upload-place [role=alert]").inner_text()
    tab.page.get_by_role("button", name="Close").click()
    assert tab.page.locator(".upload").is_hidden()


@pytest.mark.long
def test_a_dropped_folder_becomes_one_run(tab: Tab, tmp_path: Path) -> None:
    for rank in (2, 3):  # what other tests imported keeps the name it has
        runs_made.kineto_file(tmp_path / "job" / f"host{rank}" / "trace.json", rank)
    (tmp_path / "job" / ".cache").write_text("hidden")
    tab.open()
    drop(tab, tmp_path / "job")
    run = imported_run(tab)
    assert run.startswith("job-")
    see_all_ranks(tab, run, 2)


def test_a_chosen_folder_becomes_one_run(tab: Tab, tmp_path: Path) -> None:
    for rank in (4, 5):
        runs_made.kineto_file(tmp_path / "chosen" / f"rank{rank}.json", rank)
    tab.open()
    tab.page.locator(FOLDER).set_input_files(tmp_path / "chosen")
    assert imported_run(tab).startswith("chosen-")


@pytest.mark.long
@pytest.mark.parametrize(
    ("names", "num_ranks"),
    [
        (["kineto/dlrm8.tar.gz"], 8),
        (["kineto/megatron_tp2"], 2),
        (["flight_recorder/gpu_error_1st"], 16),
        (["straggler_analysis/trace-ST.parquet", "straggler_analysis/meta-ST.yaml"], 8),
    ],
    ids=["dlrm8", "megatron_tp2", "flight_recorder", "ST"],
)
def test_real_traces_end_on_a_picture_of_all_ranks(
    tab: Tab, names: list[str], num_ranks: int
) -> None:
    paths = [TRACES / name for name in names]
    if not all(path.exists() for path in paths):
        pytest.skip(NO_TRACES)
    tab.open()
    drop(tab, *paths)
    see_all_ranks(tab, imported_run(tab), num_ranks)
