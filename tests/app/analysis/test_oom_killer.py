"""A rank that the kernel killed for lack of memory, by the kernel's lines as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnose_run
from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder
from trace_hooks.log_text.labels import label_of

SECOND = 1_000_000_000
ANNOUNCED = "pt_main_thread invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0"
KILLED = "Memory cgroup out of memory: Killed process 101 (python) total-vm:1kB, anon-rss:1kB"


@pytest.mark.parametrize(
    ("texts", "ranks"), [((ANNOUNCED,), []), ((ANNOUNCED, KILLED), [[1]])], ids=["first", "both"]
)
def test_nobody_is_named_before_the_victim_is_known(
    tmp_path: Path, texts: tuple[str, ...], ranks: list[list[int]]
) -> None:
    """The builder's ranks have the process ids 100 and 101."""
    run = RunBuilder(tmp_path / "run", 2)
    for rank in range(2):
        for step in range(4):
            run.step(rank, step, step * 1e6, (step + 1) * 1e6)
            run.add("heartbeats", rank, step, ts_ns=T0 + step * SECOND)
    run.add("marks", 1, 4, ts_ns=T0 + 5 * SECOND, kind="lost", text="killed by signal 9")
    for number, text in enumerate(texts, 1):
        run.add(
            "log_lines", -1, -1, ts_ns=T0 + 4 * SECOND + number, timed="own", host="h0",
            stream="kernel", file="kmsg", count=1, line=number, level="error",
            label=label_of(text), template=text, text=text,
        )  # fmt: skip
    run.rank_files()
    run.publish()
    with open_run(tmp_path / "run") as opened:
        findings = [f for f in diagnose_run(opened).findings if f.kind == "first_error"]
    assert [[place.rank for place in finding.culprits] for finding in findings] == ranks
