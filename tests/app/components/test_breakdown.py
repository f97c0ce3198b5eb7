"""The breakdown of a step's time on the page: chart, caption and table."""

from __future__ import annotations

from app.components.breakdown import breakdown
from app.runs.hub import Hub
from app.view_state import View
from tests.app.pages_in_process import having, text_of


def test_the_breakdown_adds_up_and_has_a_table(hub: Hub) -> None:
    tree, caption = breakdown(hub, View("slow_rank"), "light")
    assert caption == "mean of steps 5 to 13"
    assert breakdown(hub, View("slow_rank", steps=(7, 7)), "light")[1] == "mean of step 7"
    (graph,) = [part for part in having(tree) if type(part).__name__ == "Graph"]
    names = {bar.name for bar in graph.figure.data}
    assert {"compute", "TP communication", "idle: waiting for a rank"} <= names
    assert "rank 5" in text_of(tree)
    nothing, caption = breakdown(hub, View("begun"), "dark")
    assert (text_of(nothing), caption) == ("No step is finished yet.", "")
