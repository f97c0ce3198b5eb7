"""The shared file as HTML: its texts, that names stay text, that it requests nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace

from app.share import collected_view
from app.share.collected_view import DETAILS, collect
from app.share.document import document
from app.share.shown_view import shown_view
from app.view_state import View
from tests.app.share.page_parser import HOSTILE, Parsed, page_of


def test_the_texts_of_the_file(hub):
    shared = Parsed(page_of(hub, run="slow"))
    for part in ("Rank 5 is slow", "Evidence", "Step time", "8 / 8", "pp 2 x dp 2 x tp 2", "Ranks"):
        assert part in shared.text
    data = json.loads(shared.scripts[0])
    assert data["culprits"] == [5]
    assert 5 in data["ranks"]
    assert data["tile"]
    assert data["heat"]


def test_a_stuck_job_brings_the_page_stuck(hub):
    shared = Parsed(page_of(hub, run="stuck"))
    assert ("div", {"id": "shared-stuck", "class": "stuck"}) in shared.tags
    data = json.loads(shared.scripts[0])
    assert data["stuck"]["state"] == "stuck"
    assert data["finding"] == data["stuck"]["findings"][0]["id"]


def test_the_page_stuck_of_a_healthy_job_says_what_was_checked(hub):
    data = json.loads(Parsed(page_of(hub, run="slow", page="stuck")).scripts[0])
    assert data["stuck"]["checked"]
    assert json.loads(Parsed(page_of(hub, run="slow")).scripts[0])["stuck"] is None


def test_long_lines_are_cut_to_their_ends(hub, monkeypatch):
    monkeypatch.setattr(collected_view, "_LONGEST_LINE", 6)
    lines = json.loads(Parsed(page_of(hub, run="stuck")).scripts[0])["stuck"]["lines"]
    assert {len(line["text"]) for line in lines} == {6}


def test_waiting_counts_in_ms_of_ranks(hub):
    """A job need not run on GPUs."""
    text = Parsed(page_of(hub, run="slow")).text
    assert "Wait caused, rank-ms" in text
    assert "GPU-ms" not in text


def test_the_state_is_that_of_the_top_bar(hub):
    """A run that is over may also have failed."""
    page = page_of(hub, run="slow")
    assert '<span class="chip state finished">ended</span>' in page


def test_one_step_is_no_range(hub):
    text = Parsed(page_of(hub, run="slow", page="timeline", steps=(7, 7))).text
    assert "attempt 0, step 7, as of" in text


def test_one_rank_is_in_the_singular(hub):
    shared = collect(hub, shown_view(hub, View("slow", page="timeline")), DETAILS[0])
    one = Parsed(document(replace(shared, num_ranks=1, shown_ranks=(0,)))).text
    assert " 1 rank " in f" {' '.join(one.split())} "
    assert "1 ranks" not in one


def test_only_chosen_steps_are_those_of_the_file(hub):
    """The lanes show the first steps of the finding; the table is of other ones."""
    text = Parsed(page_of(hub, run="slow", page="what-if")).text
    assert "attempt 0, as of" in text


def test_it_asks_for_nothing(hub):
    page = page_of(hub, run="slow")
    parsed = Parsed(page)
    for name, attributes in parsed.tags:
        assert "src" not in attributes
        assert name not in ("link", "img", "iframe", "object", "base", "form")
        assert "style" not in attributes
        assert not [key for key in attributes if key.startswith("on")]
    policy = next(a["content"] for _, a in parsed.tags if "http-equiv" in a)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    hashed = base64.b64encode(hashlib.sha256(parsed.scripts[1].encode()).digest()).decode()
    assert f"'sha256-{hashed}'" in policy
    assert len(parsed.scripts) == 2


def test_names_are_text(hub):
    page = page_of(hub, run=HOSTILE)
    parsed = Parsed(page)
    assert len([1 for name, _ in parsed.tags if name == "script"]) == 2
    assert HOSTILE in parsed.text
    assert "alert(2)" in parsed.text


def test_the_newest_attempt_is_named(hub):
    shared = collect(hub, shown_view(hub, View("slow")), DETAILS[-1])
    assert shared.attempt == 0
    assert "attempt 0" in Parsed(document(shared)).text


def test_a_cell_without_a_value_is_a_dash_and_only_noise_free_slowness_stands_out(hub):
    shared = collect(hub, shown_view(hub, View("slow")), DETAILS[-1])
    first, second = shared.rows[:2]
    rows = (replace(first, step_ms=None), replace(second, slowdown=1.3, beyond_noise=False))
    page = document(replace(shared, rows=rows))
    slow, calm = page[page.index("<tbody>") : page.index("</tbody>")].split("</tr>")[:2]
    assert '<span class="culprit">5</span>' in slow
    assert (
        f'<td class="number fault">{first.slowdown:.2f}</td><td class="number">\u2013</td>' in slow
    )
    assert '<td class="number">1.30</td>' in calm
    assert "the 2 slowest, 6 more on the live page" in page


def test_a_note_says_that_detail_was_left_out(hub):
    shared = collect(hub, shown_view(hub, View("again")), DETAILS[-1])
    assert "to keep this file small" in document(shared, is_reduced=True)
    assert "to keep this file small" not in document(shared)
