"""Memory is a counter of a trace, a mark an instant."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

from ingest.exports.perfetto import write_perfetto
from ingest.exports.window import Window
from ingest.run import open_run
from tests.runs_builder import T0, US, two_rank_run


def test_memory_is_a_counter_and_a_mark_an_instant(tmp_path: Path) -> None:
    builder = two_rank_run(tmp_path / "run", num_steps=2)
    builder.add("clocks", 1, 0, ts_ns=T0, offset_ns=5 * US)
    for step in range(2):
        builder.add(
            "memory",
            1,
            step,
            ts_ns=T0 + (100 * step + 50) * US + 1,
            allocated=10 + step,
            reserved=-1,
            rss=-1,
        )
    builder.add("marks", 0, 1, ts_ns=T0 + 120 * US, kind="fault", text="a <fault>")
    builder.publish()
    with open_run(builder.folder) as run:
        write_perfetto(run, Window(), tmp_path / "all.json")
        write_perfetto(run, Window(ranks=(1,), steps=(0, 0)), tmp_path / "part.json")
    events = json.loads((tmp_path / "all.json").read_text(), parse_float=Decimal)["traceEvents"]
    counters = [(e["pid"], e["ts"], e["args"]) for e in events if e["ph"] == "C"]
    assert counters == [
        (1, Decimal("55.001"), {"allocated": 10}),
        (1, Decimal("155.001"), {"allocated": 11}),
    ]
    (mark,) = [e for e in events if e["ph"] == "i"]
    assert (mark["pid"], mark["ts"], mark["name"]) == (0, Decimal(120), "a <fault>")
    part = json.loads((tmp_path / "part.json").read_text())["traceEvents"]
    assert [e["args"] for e in part if e["ph"] in ("C", "i")] == [{"allocated": 10}]
