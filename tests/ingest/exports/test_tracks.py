"""Spans that overlap without nesting get threads of their own."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from ingest.exports.window import Window
from tests.ingest.exports.test_perfetto import exported
from tests.runs_builder import RunBuilder


def test_spans_that_overlap_without_being_nested_get_threads_of_their_own(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 1)
    for begin_us, end_us in ((0, 10), (2, 5), (5, 15), (10, 20), (20, 30)):
        builder.span(0, 0, "kernel", begin_us, end_us, track="stream 7")
    builder.rank_files()
    builder.publish()
    events = exported(tmp_path / "run", tmp_path / "out.json", Window())
    by_thread: dict[int, list[tuple[Decimal, Decimal]]] = {}
    for e in events:
        by_thread.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
    assert len(by_thread) == 2
    for found in by_thread.values():
        for a, b in found:
            for c, d in found:
                assert b <= c or d <= a or (a <= c and d <= b) or (c <= a and b <= d)
