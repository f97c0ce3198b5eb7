"""What a shared file has of the page What-if."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from app.runs.hub import Hub
from app.share import collected_whatif
from app.share.collected_pages import page_answers
from app.share.collected_view import DETAILS, collect
from app.share.document import document
from app.share.shown_view import shown_view
from app.view_state import View
from ingest.imports.importer import import_paths
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace
from tests.app.share.page_parser import Parsed, meta_of
from tests.runs_builder import RunBuilder

JOB = MegatronJob(pp=2, dp=2, num_steps=4, num_microbatches=4)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whatif")
    pq.write_table(straggler_trace(JOB), folder / "trace-W.parquet")
    (folder / "meta-W.yaml").write_text(yaml.safe_dump(JOB.metadata))
    import_paths([folder / "trace-W.parquet", folder / "meta-W.yaml"], folder / "runs")
    RunBuilder(folder / "runs" / "without", 2).rank_files()
    return folder / "runs"


@pytest.fixture(scope="module")
def hub(runs: Path) -> Iterator[Hub]:
    with closing(Hub(runs)) as hub:
        yield hub


@pytest.fixture(scope="module")
def pipeline(hub: Hub) -> View:
    """The page of the run with a pipeline."""
    return View(next(name for name in hub.names() if name != "without"), "what-if")


def answers(hub: Hub, view: View) -> dict[str, Any]:
    return page_answers(hub, shown_view(hub, view), 256, None)


def test_the_file_has_all_that_the_page_asks_for(hub: Hub, pipeline: View) -> None:
    found = answers(hub, pipeline)
    parts = ("", "/costs", "/causes", "/advice", "/replay", "/schedules")
    assert {f"what-if{part}" for part in parts} <= set(found)
    assert found["what-if"]["is_outdated"] is False
    timelines = [key for key in found if key.startswith("what-if/schedule?name=")]
    possible = [one for one in found["what-if/schedules"]["schedules"] if one["span_s"] is not None]
    assert len(timelines) == len(possible) > 5
    assert not any(key.startswith("what-if") for key in answers(hub, pipeline.to(page="overview")))


def test_the_file_has_the_step_and_the_changes_of_its_link(hub: Hub, pipeline: View) -> None:
    changed = pipeline.to(replay=2, pipeline=(("microbatches", "8"), ("schedule", "zb-h1")))
    found = answers(hub, changed)
    assert meta_of(found["what-if/replay"])["step"] == 2
    [gpipe] = [one for one in found["what-if/schedules"]["schedules"] if one["name"] == "gpipe"]
    assert gpipe["in_flight"] == (8, 8)
    data = json.loads(
        Parsed(document(collect(hub, shown_view(hub, changed), DETAILS[0]))).scripts[0]
    )
    assert (data["page"], data["pipeline"]["microbatches"]) == ("what-if", "8")


def test_changes_that_fit_no_job_are_refused_in_words(hub: Hub, pipeline: View) -> None:
    for fields, sentence in (
        ((("microbatches", "many"),), "microbatches is 'many'; give a whole number from 0"),
        ((("split", "1,1,1"),), "3 shares of stages are given, and the job has 2 stages"),
    ):
        found = answers(hub, pipeline.to(pipeline=fields))
        assert found["what-if/schedules"] == {"refused": sentence}
        assert found["what-if"]["S"] > 0


def test_what_takes_too_much_room_is_left_out(
    hub: Hub, pipeline: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = collected_whatif.whatif_answers(hub, shown_view(hub, pipeline), None)
    one = len(json.dumps(whole["what-if/schedule?name=gpipe"]))
    monkeypatch.setattr(collected_whatif, "_MOST_TIMELINES", 2 * one)
    monkeypatch.setattr(collected_whatif, "_MOST_REPLAY", len(whole["what-if/replay"]) - 1)
    chosen = pipeline.to(pipeline=(("schedule", "gpipe"),))
    found = collected_whatif.whatif_answers(hub, shown_view(hub, chosen), None)
    timelines = [key for key in found if key.startswith("what-if/schedule?")]
    assert timelines[0] == "what-if/schedule?name=gpipe"
    assert len(timelines) < 4
    assert "what-if/replay" not in found


def test_a_run_that_cannot_be_replayed_says_why(hub: Hub) -> None:
    [(key, found)] = answers(hub, View("without", "what-if")).items()
    assert key == "what-if"
    assert found["reason"]


@pytest.mark.parametrize("page", ["query", "model"])
def test_a_file_says_which_page_it_does_not_have(hub: Hub, page: str) -> None:
    notes = shown_view(hub, View("without", page)).notes
    assert notes == (f"The page {page.title()} is not in this file; open it in rankscope.",)
