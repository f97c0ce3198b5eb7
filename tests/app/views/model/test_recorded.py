"""Which model data a run has recorded."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from app.components.topbar import topbar
from app.pages import tabs
from app.runs.hub import Hub
from app.view_state import View
from app.views.model.recorded import can_record, first_view, has_model, tables_recorded
from tests.app.views.model.test_perturbations import perturbed_run


def test_a_finished_run_with_marks_alone_has_the_tab_and_opens_with_them(tmp_path: Path) -> None:
    perturbed_run(tmp_path / "job")
    with closing(Hub(tmp_path)) as hub:
        assert "'Model'" in json.dumps(
            topbar(hub, View("job"), "", tabs(hub, View("job"))).to_plotly_json(), default=repr
        )
        assert first_view(hub.run("job")) == "perturb"


def test_a_run_without_model_data_has_no_tab_once_it_has_ended(hub: Hub) -> None:
    run = hub.run("job")
    assert tables_recorded(run) == frozenset()
    assert has_model(run) == can_record(run)
