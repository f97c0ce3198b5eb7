"""What the overview shows of a run without steps: numbers, and where each group stands."""

from __future__ import annotations

import pytest

from app.pages import overview
from app.runs.hub import Hub
from app.share.collected_view import DETAILS, collect
from app.share.document import document
from app.share.shown_view import shown_view
from app.view_state import View
from app.views.run.recorded_kpis import recorded_kpis
from app.views.run.without_steps import Front, Recorded, ranks_text, recorded
from ingest.imports.importer import import_paths
from ingest.run import open_run
from tests.app.pages_in_process import having, text_of
from tests.folders import NO_TRACES, TRACES
from tests.runs_builder import RunBuilder, collectives_only_run

DUMPS = TRACES / "flight_recorder"


@pytest.fixture
def hub(tmp_path):
    collectives_only_run(tmp_path / "only")
    RunBuilder(tmp_path / "begun").rank_files()
    hub = Hub(tmp_path)
    yield hub
    hub.close()


def test_each_group_is_described_by_its_oldest_open_collective(hub):
    counts = recorded(hub.run("only"), 0)
    assert (counts.num_collectives, counts.num_ranks, counts.num_spans) == (5, 2, 0)
    assert counts.fronts == (
        Front("g7", "tp", 2, 1, 1, "all_reduce", (0,), (), None, (1,)),
        Front("g8", "dp", 2, 1, 0, "broadcast", (0,), (), None, (2,)),
    )
    assert all(front.is_apart for front in counts.fronts)


def test_tiles_say_what_there_is_instead_of_waiting_for_a_step(hub):
    tiles = {
        kpi.key: (kpi.value, kpi.detail) for kpi in recorded_kpis(recorded(hub.run("only"), 0))
    }
    assert tiles == {
        "recorded": ("5", "by 2 ranks, in 2 groups"),
        "open": ("2", "in 2 groups"),
        "apart": ("2", "rank 0 at all_reduce 1"),
    }
    assert [kpi.label for kpi in recorded_kpis(Recorded(7, 0, 1, ()))] == ["Spans recorded"]


def test_the_overview_has_no_box_that_waits_for_steps(hub):
    page = overview.render(hub, View("only"))
    assert "No step is finished yet" not in text_of(page)
    assert not having(page, data_view="heat")
    assert not having(page, id="breakdown")
    links = [a.href for a in having(page) if getattr(a, "href", "").startswith("timeline")]
    assert links == ["timeline?ranks=0-1", "timeline?ranks=0,2"]


def test_what_is_open_comes_before_what_is_known_of_the_run(hub):
    text = text_of(overview.render(hub, View("only")))
    assert text.index("Where each group stands") < text.index("About this run")


def test_the_shared_file_has_it_before_its_pictures(hub):
    page = document(collect(hub, shown_view(hub, View("only")), DETAILS[0]))
    assert page.index("<td>all_reduce 1</td>") < page.index('id="shared-timeline"')
    assert "No step is finished yet" not in page


def test_a_job_that_has_only_begun_waits_for_its_first_step(hub):
    page = overview.render(hub, View("begun"))
    assert "No step is finished yet" in text_of(page)
    assert having(page, data_view="heat")


def test_ranks_in_few_words():
    assert ranks_text((0, 1, 2, 5)) == "0-2, 5"
    assert ranks_text(tuple(range(0, 60, 2)), 10) == "0, 2, 4, ..."


def test_the_culprits_of_a_hang_stand_out(tmp_path):
    if not DUMPS.is_dir():
        pytest.skip(NO_TRACES)
    fronts = {}
    for dump in ("gpu_error_1st", "lock_gil_1st"):
        with open_run(import_paths([DUMPS / dump], tmp_path / "runs")) as run:
            fronts[dump] = recorded(run, 0).fronts
    behind = [front.behind for front in fronts["gpu_error_1st"] if front.is_apart]
    assert {rank for ranks in behind for rank in ranks} == {12, 14}
    absent = [front.absent for front in fronts["lock_gil_1st"] if front.is_apart]
    assert {rank for ranks in absent for rank in ranks} == {9, 14}
