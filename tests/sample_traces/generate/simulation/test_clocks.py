"""Clocks of synthetic hosts."""

from pathlib import Path

from sample_traces.generate.tables.write import CREATED_NS
from tests.sample_traces.generate.generated import made, per_rank, rows


def test_unaligned_clocks_are_off_and_say_so(tmp_path: Path) -> None:
    run = made(tmp_path / "run", "clock_unaligned,ms=500")
    assert set(rows(run, "clocks")["method"].to_pylist()) == {"none"}
    ends = per_rank(run, "heartbeats", "ts_ns")
    assert min(ends[0]) == CREATED_NS
    assert abs(min(ends[8]) - CREATED_NS) > 1_000_000
