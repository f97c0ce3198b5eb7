"""The findings of a run as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from app.runs.hub import Hub
from app.server import make_app
from diagnosis.detectors import against_baseline
from diagnosis.findings import Finding
from tests.app.in_process import Client
from tests.app.recorded_runs import hub_of_recorded_runs


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with hub_of_recorded_runs(tmp_path_factory.mktemp("findings")) as hub:
        yield hub


def test_json_of_the_findings(hub: Hub) -> None:
    with closing(Client(make_app(hub))) as client:
        answer = client.get("/api/run/slow_rank/findings").json()
        (finding,) = (Finding.from_json(one) for one in answer["findings"])
        assert finding.culprits[0].rank == 5
        assert client.get("/api/run/healthy/findings?attempt=0").json()["findings"] == []
        assert {one["kind"] for one in answer["not_identifiable"]} == {
            *against_baseline.KINDS,
            "slow_op",
        }
        assert (answer["clock"]["aligned"], answer["clock"]["num_ranks"]) == (True, 8)
        short = client.get("/api/run/short/findings").json()
        assert short["clock"]["num_ranks"] == 2
        wrong = client.get("/api/run/slow_rank/findings?attempt=x")
        assert wrong.status_code == 400
        assert wrong.json()["error"] == "attempt is 'x'; give a whole number from 0"
        assert client.get("/api/run/nobody/findings").status_code == 400
