"""Findings in the dashboard: JSON, banner, drawer, and their texts in the frame of a page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnosis_of
from app.analysis.live_status import live_status
from app.analysis.not_identifiable import not_identifiable
from app.components.banner import banner
from app.components.drawer import MOST_LISTED, drawer
from app.components.topbar import findings_button, topbar
from app.dash_shell import make_dash
from app.pages import tabs
from app.runs.hub import Hub
from app.server import make_app
from app.view_state import View, parse_url
from app.views.run.about_run import Clocks
from diagnosis.detectors import against_baseline
from diagnosis.findings import Diagnosis, Finding, NotEnoughData, Place, Verdict
from sample_traces import RECORDED
from tests.app.in_process import Client
from tests.app.pages_in_process import call, having, plain_text, text_of
from tests.diagnosis.test_findings import past_finding
from tests.runs_builder import RunBuilder, restarted_run, two_rank_run

VIEW = View("slow_rank")
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    runs = tmp_path_factory.mktemp("findings")
    for name in ("slow_rank", "healthy"):
        shutil.copytree(RECORDED / name, runs / name)
    two_rank_run(runs / "short")
    RunBuilder(runs / "begun").rank_files()
    opened = Hub(runs)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def diagnosis(hub: Hub) -> Diagnosis:
    return diagnosis_of(hub, "slow_rank")


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


def test_the_banner_names_the_rank_and_offers_to_show_it(diagnosis: Diagnosis) -> None:
    line = banner(diagnosis, VIEW, "/base")
    assert "urgent" in line.className
    assert text_of(line).startswith("Rank 5 is slow.")
    assert diagnosis.findings[0].text in text_of(line)
    (link,) = [part for part in having(line) if getattr(part, "href", None)]
    shown, problems = parse_url(*link.href.split("?"), base="/base")
    first = diagnosis.findings[0].first_step
    assert problems == []
    assert (shown.page, shown.rank, shown.ranks) == ("timeline", 5, (1, 5))
    assert shown.steps == (first, first + 1)
    assert (shown.attempt, shown.finding) == (0, diagnosis.findings[0].id)
    (copy,) = having(line, data_copy=link.href)
    assert copy.children == "Copy link"
    assert not having(line, data_act="finding-next")  # there is but one


def test_several_findings_are_counted_and_turned(diagnosis: Diagnosis) -> None:
    first = diagnosis.findings[0]
    second = replace(
        first, culprits=(Place(2),), severity="past", ongoing=False, title="Rank 2 was slow"
    )
    both = Diagnosis((Verdict("a", (second, first)),))
    line = banner(both, VIEW, "")
    assert "1 of 2" in text_of(line)
    assert having(line, data_act="finding-next")
    other = banner(both, VIEW.to(finding=second.id), "")
    assert "past" in other.className
    assert "Rank 2 was slow" in text_of(other)
    assert "2 of 2" in text_of(other)


def test_a_finding_whose_first_step_has_moved_is_the_same(diagnosis: Diagnosis) -> None:
    first = diagnosis.findings[0]
    third, later = past_finding(3, 9), past_finding(3, 40)
    diagnosed = Diagnosis((Verdict("a", (first, third, later)),))
    moved = banner(diagnosed, VIEW.to(finding="slow_worker-0-3-7"), "")
    assert "Rank 3 was slow from 9" in text_of(moved)
    assert "no longer exists" not in text_of(moved)


@pytest.mark.parametrize(
    "gone", ["slow_worker-0-2-5", "slow_worker-1-5-5", "slow_link-0-5-5", "nonsense"]
)
def test_the_banner_notes_that_the_linked_finding_is_gone(
    hub: Hub, diagnosis: Diagnosis, gone: str
) -> None:
    line = banner(diagnosis, VIEW.to(finding=gone), "")
    assert "no longer exists. The page shows instead: Rank 5 is slow." in text_of(line)
    calm = banner(diagnosis_of(hub, "healthy"), View("healthy", finding=gone), "")
    assert "The finding of this link no longer exists." in text_of(calm)
    for named in (None, diagnosis.findings[0].id):
        assert "no longer" not in text_of(banner(diagnosis, VIEW.to(finding=named), ""))


def test_healthy_and_unknown_are_not_the_same(hub: Hub) -> None:
    calm = banner(diagnosis_of(hub, "healthy"), View("healthy"), "")
    assert "calm" in calm.className
    assert "No rank was slow" in text_of(calm)
    assert "8 ranks compared" in text_of(calm)
    for name, sentence in (
        ("short", "Only 3 steps are finished"),
        ("begun", "No step is finished"),
    ):
        line = banner(diagnosis_of(hub, name), View(name), "")
        assert "unknown" in line.className
        assert sentence in text_of(line)
    aside = Diagnosis((Verdict("a", checked="fine", set_aside=("Stage 1 is slow as a whole.",)),))
    assert "Stage 1 is slow as a whole." in text_of(banner(aside, VIEW, ""))
    assert "calm" not in banner(aside, VIEW, "").className


def test_the_drawer_holds_evidence_alternatives_and_what_could_not_be_judged(
    diagnosis: Diagnosis,
) -> None:
    finding = diagnosis.findings[0]
    full = Diagnosis(
        (
            *diagnosis.verdicts,
            Verdict("b", not_enough=(NotEnoughData("b", "no clocks"),), set_aside=("odd host",)),
        )
    )
    tree = drawer(full, VIEW, "")
    text = text_of(tree)
    for evidence in finding.evidence:
        assert evidence.sentence in text
        (link,) = [
            part
            for part in having(tree, title=f"saved query {evidence.question}")
            if parse_url(*part.href.split("?"))[0].args
            == tuple((name, str(value)) for name, value in evidence.params)
        ][:1]
        assert parse_url(*link.href.split("?"))[0].q == evidence.question
    for sentence in (*finding.alternatives, finding.next_step, "no clocks", "odd host", "node0"):
        assert sentence in text
    (open_one,) = having(tree, open=True)
    assert open_one.id == f"finding-{finding.id}"


def test_the_drawer_lists_the_most_urgent_of_thousands_and_the_chosen_one(
    diagnosis: Diagnosis,
) -> None:
    finding = diagnosis.findings[0]
    many = tuple(replace(finding, first_step=n, last_step=n + 1) for n in range(10_000))
    full = Diagnosis((Verdict("a", many),))
    last = full.findings[-1]
    tree = drawer(full, VIEW.to(finding=last.id), "")
    listed = [part.id for part in having(tree, open=False)] + [
        part.id for part in having(tree, open=True)
    ]
    assert len(listed) == MOST_LISTED
    assert {f"finding-{full.findings[0].id}", f"finding-{last.id}"} <= set(listed)
    assert "100 of 10,000 findings are listed" in text_of(tree)
    assert "are listed" not in text_of(drawer(diagnosis, VIEW, ""))


def test_the_drawer_names_what_cannot_be_decided_and_the_remedy(
    hub: Hub, diagnosis: Diagnosis
) -> None:
    clocks = Clocks("Ranks 3 and 4 of 8 have no common clock with the others.", is_unaligned=True)
    tree = drawer(diagnosis, VIEW, "", clocks)
    text = text_of(tree)
    for one in not_identifiable(diagnosis):
        assert one["why"] in text
        assert text.count(one["remedy"]) == 1
    (note,) = having(tree, className="note unaligned")
    assert text_of(note) == clocks.sentence
    compared = Diagnosis((*diagnosis.verdicts, Verdict(against_baseline.NAME, checked="As quick.")))
    assert not_identifiable(compared) == []
    assert "Cannot be decided" not in text_of(drawer(compared, VIEW, ""))


def test_what_two_detectors_have_in_common_is_shown_once() -> None:
    both = Diagnosis(
        (Verdict("a", checked="All as before."), Verdict("b", checked="All as before."))
    )
    assert text_of(drawer(both, VIEW, "")).count("All as before.") == 1


@pytest.mark.parametrize(
    ("last", "severity", "since", "steps"),
    [
        (13, "urgent", "since step 6", "6-13, to the newest step"),
        (6, "urgent", "in step 6", "6, the newest step"),
        (9, "past", "in steps 6 to 9", "6-9, over"),
        (6, "past", "in step 6", "6, over"),
    ],
)
def test_the_drawer_names_one_step_as_one(
    diagnosis: Diagnosis, last: int, severity: str, since: str, steps: str
) -> None:
    ongoing = severity != "past"
    finding = replace(
        diagnosis.findings[0],
        first_step=6,
        last_step=last,
        ongoing=ongoing,
        severity=severity,
        slowdown=None,
    )
    said = text_of(drawer(Diagnosis((Verdict("a", (finding,)),)), VIEW, "")).split()
    assert f"{finding.title} {since}" in " ".join(said)
    assert f"Steps {steps} Confidence" in " ".join(said)


def test_names_stay_text(diagnosis: Diagnosis) -> None:
    finding = replace(
        diagnosis.findings[0], culprits=(Place(5, HOSTILE),), text=HOSTILE, title=HOSTILE
    )
    diagnosed = Diagnosis((Verdict("a", (finding,)),))
    for tree in (banner(diagnosed, VIEW, ""), drawer(diagnosed, VIEW, "")):
        assert HOSTILE in text_of(tree)  # as text: Dash never makes markup of it
        assert not [part for part in having(tree) if "dangerously" in str(part.to_plotly_json())]


def test_the_frame_on_every_page(hub: Hub) -> None:
    server = make_dash(hub, "").server
    ask = "banner-place.children,drawer.children,found.data"

    def shown(path: str, search: str = "") -> dict:
        answer = call(
            server,
            ask,
            "url.pathname",
            url__pathname=path,
            url__search=search,
            view__data={"path": path, "search": search},
        )
        assert answer is not None
        return answer

    overview = shown("/run/slow_rank/overview")
    assert "Rank 5 is slow." in plain_text(overview["banner-place"]["children"])
    timeline = shown("/run/slow_rank/timeline")
    assert timeline["banner-place"]["children"] is None  # the link names no finding
    assert "Evidence" in plain_text(timeline["drawer"]["children"])
    assert "Clocks" in plain_text(timeline["drawer"]["children"])
    linked = shown("/run/slow_rank/timeline", "?finding=slow_worker-0-5-5")
    assert "Rank 5 is slow." in plain_text(linked["banner-place"]["children"])
    assert shown("/")["drawer"]["children"] is None
    assert shown("/run/nobody/overview")["drawer"]["children"] is None

    again = {"url__pathname": "/run/slow_rank/overview", "found__data": overview["found"]["data"]}
    assert not call(server, ask, "pulse.data", **again)  # news that change nothing here
    again["found__data"] = timeline["found"]["data"]
    assert call(server, ask, "pulse.data", **again)["banner-place"] == overview["banner-place"]


def test_the_count_follows(hub: Hub) -> None:
    server = make_dash(hub, "").server
    answer = call(
        server,
        "findings-count.children",
        "findings-count.id",
        url__pathname="/run/slow_rank/ranks",
        url__search="",
    )
    assert answer is not None
    assert plain_text(answer["findings-count"]["children"]) == "1 finding"


def test_the_count_in_words(diagnosis: Diagnosis, hub: Hub) -> None:
    assert findings_button(diagnosis).children == "1 finding"
    assert findings_button(diagnosis).to_plotly_json()["props"]["data-ids"] == (
        diagnosis.findings[0].id
    )
    assert findings_button(diagnosis_of(hub, "healthy")).children == "No finding"
    assert findings_button(diagnosis_of(hub, "begun")).children == "Not judged"


def test_the_top_bar_of_a_run_with_restarts(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "again", 2)
    for attempt in (0, 1):
        for rank in range(2):
            builder.add(
                "steps", rank, attempt, attempt, start_ns=1_700_000_000_000_000_000, dur_ns=10**6
            )
        builder.rank_files(attempt)
    builder.publish()
    hub = Hub(tmp_path)
    try:
        bar = topbar(hub, View("again"), "", tabs(hub, View("again")))
        assert [option.value for option in having(bar) if type(option).__name__ == "Option"] == [
            "",
            "0",
            "1",
        ]
        assert bar.to_plotly_json()["props"]["data-attempt"] == "1"
        assert text_of(bar).count("again") == 1
    finally:
        hub.close()


def test_the_top_bar_follows_a_restart(tmp_path: Path) -> None:
    """A link made after it must not name the attempt before."""
    builder = restarted_run(tmp_path / "again")
    hub = Hub(tmp_path)
    try:
        server = make_dash(hub, "").server
        at = {"url__pathname": "/run/again/ranks", "url__search": ""}
        first = call(server, "topbar.children", "url.pathname", **at)
        assert first is not None
        bar = first["topbar"]["children"]
        assert bar["props"]["data-attempt"] == "1"
        assert (
            bar["props"]["data-bar"] == live_status(hub, "again").bar
        )  # left alone while they agree
        builder.rank_files(attempt=2)
        assert hub.catch_up("again", 20)
        status_bar = live_status(hub, "again").bar
        assert status_bar != bar["props"]["data-bar"]
        after = call(server, "topbar.children", "bar.data", bar__data=status_bar, **at)
        assert after is not None
        assert after["topbar"]["children"]["props"]["data-bar"] == status_bar
        assert after["topbar"]["children"]["props"]["data-attempt"] == "2"
        assert "attempt 2" in plain_text(after["topbar"]["children"])
    finally:
        hub.close()
