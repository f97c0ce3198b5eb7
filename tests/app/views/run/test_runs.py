"""Rows of the list of runs."""

from __future__ import annotations

import json

import pytest

from app.views.run.runs import Card, live_state, read_card, run_row
from ingest.run import open_run
from tests.app.pages.test_runs import NS
from tests.runs_builder import T0, two_rank_run


@pytest.mark.parametrize("ends", [(), (0,), (0, 1)])
def test_the_state_is_the_runs_own(tmp_path, ends):
    builder = two_rank_run(tmp_path / "a")
    for rank in ends:
        path = builder.folder / "ranks" / f"0000-{rank:05d}.json"
        info = json.loads(path.read_text())
        end = {"ts_ns": T0 + NS, "status": "finished", "error": None}
        path.write_text(json.dumps(info | {"end": end}))
    with open_run(builder.folder) as run:
        arrived = run.index_rows("SELECT max(arrived_ns) AS t FROM arrivals")[0]["t"]
        card = read_card(builder.folder)
        for quiet_s in (0, 5, 11, 30, 61, 1000):
            now_ns = arrived + quiet_s * NS
            states = set(run.rank_states(now_ns).values())
            unfinished = states - {"finished"} or {"finished"}
            wanted = unfinished.pop() if len(unfinished) == 1 else "silent"
            assert live_state(card, now_ns) == wanted, f"after {quiet_s} s"


def test_a_row_is_true_at_its_moment():
    card = Card("a", True, written_ns=0, facts=None)
    assert run_row(card, 5 * NS).age_s == 5
    assert run_row(Card("a", True, 0, is_indexing=True), 5 * NS).state == "indexing"
