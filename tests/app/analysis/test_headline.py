"""The headline without a finding is the same everywhere: banner, shared file, list of runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from markupsafe import escape

from app.analysis.diagnosis import diagnosis_of
from app.analysis.headline import headline
from app.analysis.run_board import judgement
from app.components.banner import banner
from app.runs.hub import Hub
from app.share.shared_file import shared_file
from app.view_state import View
from app.views.run.runs import Card, run_row
from diagnosis.findings import Diagnosis, NotEnoughData, Verdict
from ingest.stopping import Stop
from tests.app.pages_in_process import text_of
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout

HOSTS = ["a"] * 4 + ["b"] * 4


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Host b of `slow_host` is a whole replica, whose ranks may have more work: it is noted. Both
    have ended: a run that has not falls silent.
    """
    runs = tmp_path_factory.mktemp("headline")
    for name, x in (("slow_host", 1.5), ("healthy", 1.0)):
        builder = RunBuilder(runs / name, 8, ParallelLayout.from_sizes(dp=2, tp=4), hosts=HOSTS)
        for step in range(30):
            for rank in range(8):
                factor = x if HOSTS[rank] == "b" and step >= 10 else 1.0
                length = 50 * factor * (1 + 0.001 * ((rank * 7 + step * 3) % 5))
                builder.step(rank, step, step * 100, step * 100 + 100)
                builder.span(rank, step, "forward", step * 100, step * 100 + length)
                builder.span(rank, step, "dp_comm", step * 100 + length, step * 100 + 100)
        builder.rank_files(end={"ts_ns": T0 + 10**9, "status": "finished", "error": None})
        builder.publish()
    opened = Hub(runs)
    yield opened
    opened.close()


def test_a_slow_host_is_calm_nowhere(hub: Hub) -> None:
    diagnosis = diagnosis_of(hub, "slow_host")
    assert diagnosis.findings == ()
    shown = headline(diagnosis)
    assert (shown.tone, shown.title) == ("unknown", "Noted, no finding")
    assert shown.text.startswith(
        "All 4 ranks of host b take 1.50x as long to compute as their peers since step 10"
    )
    assert "No single rank was slow" in shown.text
    line = banner(diagnosis, View("slow_host"), "")
    assert line.className == "banner unknown"
    page = shared_file(hub, View("slow_host")).content.decode()
    assert 'shared-banner unknown"' in page
    assert f"<strong>{shown.title}.</strong> {escape(shown.text)}" in page
    assert text_of(line).split() == f"{shown.title}. {shown.text}".split()


def test_what_was_noted_is_said_of_a_job_that_fell_silent_as_well(hub: Hub) -> None:
    diagnosis = diagnosis_of(hub, "slow_host")
    shown = headline(diagnosis, "lost")
    assert shown.tone == "warning"
    assert shown.text.startswith("Nothing arrives any more")
    assert "All 4 ranks of host b" in shown.text


def test_a_healthy_run_is_calm_everywhere(hub: Hub) -> None:
    shown = headline(diagnosis_of(hub, "healthy"))
    assert shown.tone == "calm"
    page = shared_file(hub, View("healthy")).content.decode()
    assert 'shared-banner calm"' in page
    assert f"<strong>{shown.title}.</strong>" in page


def test_the_list_of_runs_counts_what_was_noted(hub: Hub) -> None:
    for name, noted in (("slow_host", 1), ("healthy", 0)):
        judged = judgement(hub.run(name).folder, Stop())
        assert judged is not None
        facts = hub.run(name).ask("run_card").to_pylist()[0]
        row = run_row(Card(name, False, 0, facts=facts, judged=judged), 0)
        assert (row.num_findings, row.num_past, row.num_noted) == (0, 0, noted)


@pytest.mark.parametrize(
    ("number", "others"),
    [(1, ""), (2, "There is 1 more reason. "), (4, "There are 3 more reasons. ")],
)
def test_a_text_that_is_shared_names_no_part_of_the_page(number: int, others: str) -> None:
    lacks = tuple(NotEnoughData(f"d{at}", f"Reason {at}.") for at in range(number))
    found = Diagnosis((Verdict("a", checked="No rank was slow.", not_enough=lacks),))
    assert headline(found).text == f"Reason 0. {others}No rank was slow."
