"""What the page Data shows, on a run built by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.views.data_loading import data_loading_of
from ingest.run import open_run
from tests.data_runs import data_run
from tests.runs_builder import RunBuilder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_run(tmp_path_factory.mktemp("data") / "run")


def test_who_waits_and_why(folder: Path) -> None:
    with open_run(folder) as run:
        found = data_loading_of(run, None)
    assert [row["rank"] for row in found.waits] == [1, 0]
    assert found.waits[0]["data_wait_ms"] == pytest.approx(4.0)
    assert found.why == (
        "Worker 1 takes 40.0 ms for a sample, 20.0 times as long as the rank's other workers: it "
        "waits for 90% of that (storage, network, a lock or a core); a sample reads 1.0 MB."
    )
    first = found.workers[0]
    assert (first["rank"], first["worker"], first["source"], first["slower"]) == (1, 1, "web", 20)
    assert (found.num_workers, len(found.workers)) == (4, 4)
    assert [(row["source"], row["ratio"], row["planned"]) for row in found.sources] == [
        ("code", 0.25, 0.5),
        ("web", 0.75, 0.5),
    ]
    assert [(row["rank"], row["worker"], row["is_shared"]) for row in found.memory] == [
        (1, 1, True),
        (1, 0, False),
    ]


def test_of_some_steps(folder: Path) -> None:
    with open_run(folder) as run:
        found = data_loading_of(run, 0, (0, 1))
    assert {row["fetches"] for row in found.workers} == {2}
    assert found.why is None  # too few fetches to say


def test_of_a_run_without_loaders(tmp_path: Path) -> None:
    bare = RunBuilder(tmp_path / "run", 2)
    bare.rank_files()
    bare.publish()
    with open_run(bare.folder) as run:
        found = data_loading_of(run, None)
    assert (found.waits, found.workers, found.sources, found.memory) == ((), (), (), ())
