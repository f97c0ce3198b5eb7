"""The top bar: run, attempts, state and the number of findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnosis_of
from app.analysis.live_status import live_status
from app.components.topbar import findings_button, topbar
from app.dash_shell import make_dash
from app.pages import tabs
from app.runs.hub import Hub
from app.view_state import View
from diagnosis.findings import Diagnosis, Verdict
from tests.app.pages_in_process import call, having, plain_text, text_of
from tests.runs_builder import RunBuilder, restarted_run


def test_the_count_in_words(diagnosis: Diagnosis, hub: Hub) -> None:
    assert findings_button(diagnosis).children == "1 finding"
    assert findings_button(diagnosis).to_plotly_json()["props"]["data-ids"] == (
        diagnosis.findings[0].id
    )
    assert findings_button(diagnosis).to_plotly_json()["props"]["data-stuck"] == "false"
    assert findings_button(diagnosis_of(hub, "healthy")).children == "Partly judged"  # shared cores
    assert findings_button(diagnosis_of(hub, "begun")).children == "Not judged"


@pytest.mark.parametrize(
    ("severities", "shown"),
    [
        (("warning", "past"), "warning"),
        (("past", "warning", "urgent"), "urgent"),
        (("past",), ""),
        ((), ""),
    ],
)
def test_the_count_has_the_colour_of_the_most_urgent_banner(
    diagnosis: Diagnosis, severities: tuple[str, ...], shown: str
) -> None:
    (finding,) = diagnosis.findings
    findings = tuple(replace(finding, severity=s, ongoing=s != "past") for s in severities)
    button = findings_button(Diagnosis((Verdict("slow_worker", findings, "Nothing else."),)))
    assert button.to_plotly_json()["props"]["className"] == shown


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


def test_the_top_bar_follows_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link made after it must not name the attempt before."""
    monkeypatch.setattr("app.runs.index_follower.PASS_GAP_S", 0.05)
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
