"""Other schedules on the what-if page, in process: predictions, a step of one, advice, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import pytest

from diagnosis.whatif.schedules.names import NAMES
from tests.app.views.whatif.test_answer import Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with closing(Site(tmp_path_factory.mktemp("schedules"))) as made:
        yield made


def test_every_schedule_is_predicted_or_says_why_not(site: Site) -> None:
    found = site.get(site.slow, "/schedules")
    assert [one["name"] for one in found["schedules"]] == list(NAMES)
    for one in found["schedules"]:
        assert (one["span_s"] is None) == bool(one["reason"])
    assert found["sizes"]["p"] == 3


def test_changes_reach_the_prediction(site: Site) -> None:
    m = site.get(site.slow, "/schedules")["sizes"]["m"]

    def span(**changes: object) -> float:
        found = site.get(site.slow, "/schedules", **changes)["schedules"]
        taken: float = next(one["span_s"] for one in found if one["name"] == "1f1b")
        return taken

    assert span(microbatches=4 * m) < 0.95 * span()
    assert span(stragglers="no") < span()
    assert span(split="8,1,1") > 1.2 * span()
    assert span(split="equal") == pytest.approx(span(split="2,2,2"))


@pytest.mark.parametrize("name", NAMES)
def test_a_step_under_a_schedule_has_every_operation(site: Site, name: str) -> None:
    found = site.get(site.slow, "/schedule", name=name, microbatches=6)
    lanes = found["predicted"]
    assert len(lanes) == (6 if name == "fbd" else 3)
    kinds = [op[0] for lane in lanes for op in lane]
    assert kinds.count("F") == kinds.count("B") >= 18
    for lane in lanes:
        for (*_, begin, end), (*_, after, _end) in pairwise(lane):
            assert begin < end <= after + 1e-12
    measured = [op for lane in found["measured"] for op in lane]
    assert min(op[3] for op in measured) == 0


def test_advice_leads_to_its_prediction(site: Site) -> None:
    found = site.get(site.slow, "/advice")
    assert found["own"] == "1f1b"
    saves = [one["saves"] for one in found["advice"]]
    assert saves == sorted(saves, reverse=True)
    for one in found["advice"]:
        if one["pipeline"] is None:
            assert one["change"].startswith(("pp ", "ranks as fast", "micro-batches of equal"))
            continue
        fields = dict(one["pipeline"])
        name = fields.pop("schedule")
        predicted = site.get(site.slow, "/schedules", **fields)["schedules"]
        span_s = next(p["expected_s"] for p in predicted if p["name"] == name)
        assert one["step_s"] - found["rest_s"] == pytest.approx(span_s, rel=0.05)


def test_one_stage_has_no_other_schedules(site: Site) -> None:
    for path in ("/schedules", "/advice"):
        assert "one pipeline stage" in site.get(site.one_stage, path)["reason"]


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"split": "1,x"}, "shares of stages are '1,x'"),
        ({"split": "1,2"}, "2 shares of stages are given, and the job has 3 stages"),
        ({"microbatches": "0"}, "give a whole number from 1"),
        ({"microbatches": "4096", "chunks": "16"}, "more than can be replayed"),
    ],
)
def test_changes_that_make_no_sense_are_refused(
    site: Site, params: dict[str, str], why: str
) -> None:
    answer = site.client.get(f"/api/run/{site.slow}/what-if/schedules", params=params)
    assert answer.status_code == 400
    assert why in answer.text


def test_an_unknown_schedule_is_refused(site: Site) -> None:
    answer = site.client.get(f"/api/run/{site.slow}/what-if/schedule", params={"name": "<b>"})
    assert answer.status_code == 400
    assert "there is no schedule" in answer.text
