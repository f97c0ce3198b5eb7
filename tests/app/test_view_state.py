"""The view state: the same in Python and in the browser (tests/js/lib/view_state.test.mjs)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.pages import page_module
from app.view_state import PAGES, View, explain, format_ranks, parse_url
from ingest.run import open_run
from ingest.run_folder.retention_file import Retention, write_retention
from ingest.run_folder.step_ranges import StepRange
from tests.runs_builder import T0, RunBuilder, two_rank_run

CASES = json.loads(Path(__file__).with_name("view_cases.json").read_text(encoding="utf-8"))


def view_of(case):
    view_fields = dict(case["view"])
    if "ranks_to" in view_fields:
        view_fields["ranks"] = range(view_fields.pop("ranks_to") + 1)
    for name in ("ranks", "steps", "against", "t", "span", "area", "marks", "pins", "expert"):
        if name in view_fields:
            view_fields[name] = tuple(view_fields[name])
    for name in ("args", "model", "fleet", "pipeline"):
        if name in view_fields:
            view_fields[name] = tuple(view_fields[name].items())
    return View(**view_fields)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_url_and_back(case):
    base = case.get("base", "")
    view, problems = parse_url(case["path"], case.get("search", ""), base)
    assert view == view_of(case)
    assert view.url(base) == case["url"]
    path, _, search = case["url"].partition("?")
    assert parse_url(path, search, base) == (view, [])
    assert len(problems) == len(case.get("damaged", []))
    for name, problem in zip(case.get("damaged", []), problems, strict=True):
        assert name in problem


def test_long_sql_is_cut_by_characters():
    view, _ = parse_url("/run/a/query", "?sql=" + "%F0%9F%98%80" * 5000)
    assert view.sql == "\U0001f600" * 4000


def test_ranks_as_text():
    assert format_ranks([0, 1, 2, 8, 4, 5]) == "0-2,8,4-5"
    assert format_ranks([]) == ""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    builder = two_rank_run(tmp_path_factory.mktemp("runs") / "a", num_steps=3)
    builder.rank_files(end={"ts_ns": T0 + 10**9, "status": "finished", "error": None})
    with open_run(builder.folder) as opened:
        yield opened


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({}, []),
        ({"rank": 1, "ranks": (0, 1), "steps": (1, 2), "attempt": 0, "t": (0, 10**8)}, []),
        ({"attempt": 4}, ["no attempt 4; it has attempt 0"]),
        ({"rank": 2}, ["no rank 2 in attempt 0; it has 2 ranks, 0 to 1"]),
        ({"rank": 7, "ranks": (0, 5, 6)}, ["no ranks 7,5-6 in attempt 0"]),
        ({"steps": (50, 60)}, ["No data for steps 50 to 60: this run has steps 0 to 2"]),
        ({"steps": (50, 50)}, ["No data for step 50: this run has steps 0 to 2"]),
        ({"steps": (2, 60)}, []),
        ({"t": (2 * 10**9, 3 * 10**9)}, ["outside the run, which lasted 1.0 s"]),
        ({"t": (-5, -1)}, ["outside the run"]),
        ({"rank": 9, "steps": (50, 60)}, ["no rank 9", "steps 50 to 60"]),
    ],
)
def test_what_the_run_has_not_is_explained(run, given, parts):
    sentences = explain(View("a", **given), run)
    assert len(sentences) == len(parts)
    for sentence, part in zip(sentences, parts, strict=True):
        assert part in sentence
        assert sentence.endswith(".")


def test_only_on_the_page_it_is_said_what_to_do_there(run):
    view = View("a", rank=9, steps=(50, 60), t=(2 * 10**9, 3 * 10**9))
    rank, steps, window = explain(view, run)
    on_page = [" Choose one on the Ranks page.", " Double-click the step-time strip above to see"]
    on_page += [" Press F on the timeline to see all of it."]
    shown = explain(view, run, on_page=True)
    for plain, sentence, advice in zip((rank, steps, window), shown, on_page, strict=True):
        assert sentence.startswith(plain + advice)


def test_each_attempt_has_its_own_ranks(tmp_path):
    builder = two_rank_run(tmp_path / "a")
    smaller = RunBuilder(tmp_path / "a", 1)
    smaller.rank_files(attempt=1)
    smaller.step(0, 3, 300, 400, attempt=1)
    smaller.publish()
    with open_run(builder.folder) as run:
        assert explain(View("a", rank=1, attempt=0), run) == []
        assert "attempt 1; it has rank 0 only" in explain(View("a", rank=1), run)[0]
        assert "it has attempts 0 to 1" in explain(View("a", attempt=2), run)[0]


def test_steps_that_retention_removed_are_said_to_be(tmp_path):
    folder = two_rank_run(tmp_path / "a", num_steps=6).folder
    removed = (StepRange(0, 0, 1), StepRange(0, 3, 4))
    write_retention(folder, Retention(removed=removed))
    with open_run(folder) as run:
        explained = {steps: explain(View("a", steps=steps), run) for steps in ((0, 1), (1, 3))}
        assert explain(View("a", steps=(5, 5)), run) == []
    assert explained[0, 1] == ["Old data was removed with rankscope gc: that of steps 0 to 1."]
    assert "steps 1 to 3 (some between them are kept)" in explained[1, 3][0]


def test_a_run_without_data_explains_nothing(tmp_path):
    RunBuilder(tmp_path / "a", 2)
    with open_run(tmp_path / "a") as run:
        assert explain(View("a", rank=99, attempt=3), run) == []


def test_every_page_has_a_module_a_key_of_its_own_and_a_view_of_that_name():
    assert len({page.key for page in PAGES}) == len({page.name for page in PAGES}) == len(PAGES)
    assert PAGES[0].name == View().page
    for page in PAGES:
        module = page_module(page.name)
        assert callable(module.render)
        assert callable(module.register)
