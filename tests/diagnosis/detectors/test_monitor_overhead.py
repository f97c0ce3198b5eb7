"""monitor_overhead: hooks that cost too much or drop rows, on hand-built answers and a run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis.detectors.monitor_overhead import NAME, detect
from diagnosis.findings import Verdict
from ingest.run import open_run
from tests.diagnosis.answer_schema import answer_schema
from tests.diagnosis.work_tables import phase_tables
from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)
_COLUMNS = answer_schema(
    "rank INTEGER, self_ms DOUBLE, elapsed_ms DOUBLE, cost_ratio DOUBLE, "
    "self_ms_per_step DOUBLE, dropped BIGINT, hook_errors BIGINT"
)


_NOT_COUNTED = answer_schema(
    "rank INTEGER, thread VARCHAR, source VARCHAR, share DOUBLE"
).empty_table()


STEPS, FROM = 30, 10


def judged(
    costs: dict[int, dict[str, Any]],
    elapsed_ms: float = 60_000.0,
    by_step: list[float] | None = None,
    by_source: pa.Table = _NOT_COUNTED,
) -> Verdict:
    rows = []
    for rank in range(8):
        reported = {"cost_ratio": 0.004, "dropped": 0, **costs.get(rank, {})}
        own_ms = elapsed_ms * reported["cost_ratio"]
        rows.append(
            {
                "rank": rank,
                "self_ms": own_ms,
                "elapsed_ms": elapsed_ms,
                "hook_errors": 0,
                "self_ms_per_step": own_ms / 300,
                **reported,
            }
        )
    tables = phase_tables(DP8, STEPS, lambda r, s: {})
    shares = [0.004] * STEPS if by_step is None else by_step
    beats = pa.table(
        {
            "step": np.arange(1, STEPS, 2),
            "cost_ratio": np.array(shares)[1::2],
            "num_beats": np.full(STEPS // 2, 8),
            "since_step": np.arange(-1, STEPS - 2, 2),
        }
    )
    answers = {
        "hook_cost": pa.Table.from_pylist(rows, _COLUMNS),
        "hook_cost_by_step": beats,
        "hook_cost_by_source": by_source,
    }
    return detect({**tables, **answers}, attempt=0)


@pytest.mark.parametrize("ratio", [0.3, 0.08, 0.04])
def test_a_rank_whose_hooks_cost_too_much(ratio: float) -> None:
    (finding,) = judged({3: {"cost_ratio": ratio}}).findings
    assert finding.kind == "monitor_overhead"
    assert [place.rank for place in finding.culprits] == [3]
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(200.0 * ratio)
    assert finding.evidence[0].number == pytest.approx(ratio)


def test_the_sources_that_cost_most_are_named() -> None:
    rows = [
        {"rank": rank, "thread": thread, "source": source, "share": share}
        for rank in (2, 3)
        for thread, source, share in (
            ("trace_hooks drain", "writing", 0.5),
            ("main", f"statistics {rank}", 0.3),
            ("main", "modules", 0.15),
            ("main", "collectives", 0.05),
        )
    ]
    by_source = pa.Table.from_pylist(rows, _NOT_COUNTED.schema)
    (finding,) = judged({3: {"cost_ratio": 0.3}}, by_source=by_source).findings
    (by_thread,) = [e for e in finding.evidence if e.question == "hook_cost_by_source"]
    assert by_thread.sentence == (
        "Most of it on rank 3: writing on thread trace_hooks drain 50 %, statistics 3 on thread "
        "main 30 %, modules on thread main 15 %."
    )
    assert by_thread.number == 0.5


def test_hooks_that_cost_too_much_everywhere_name_the_job() -> None:
    (finding,) = judged({rank: {"cost_ratio": 0.05} for rank in range(8)}).findings
    assert finding.culprits == ()
    assert "the job" in finding.title


@pytest.mark.parametrize("ratio", [0.3, 0.1, 0.04])
def test_since_when(ratio: float) -> None:
    shares = [0.004] * FROM + [ratio] * (STEPS - FROM)
    (finding,) = judged({}, by_step=shares).findings
    assert (finding.first_step, finding.culprits, finding.ongoing) == (FROM, (), True)
    assert finding.cost is not None
    assert finding.cost.share == pytest.approx(ratio)


def test_dropped_rows() -> None:
    (finding,) = judged({6: {"dropped": 1200}}).findings
    assert [place.rank for place in finding.culprits] == [6]
    assert finding.cost is None
    assert "1,200 rows were dropped" in finding.text


def test_cheap_hooks_are_healthy() -> None:
    verdict = judged({2: {"cost_ratio": 0.02}})
    assert verdict.findings == ()
    assert "(the most on one rank: 2 %)" in (verdict.checked or "")


def test_the_first_seconds_are_not_judged() -> None:
    verdict = judged({3: {"cost_ratio": 0.3}}, elapsed_ms=3_000.0)
    assert "No heartbeats over five seconds of steps" in verdict.not_enough[0].missing


@pytest.mark.parametrize(("own_share", "kinds"), [(0.06, ["monitor_overhead"]), (0.005, [])])
def test_a_run(tmp_path: Path, own_share: float, kinds: list[str]) -> None:
    builder = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2))
    for rank in range(2):
        for step in range(10):
            begin = step * 1_000_000.0
            builder.step(rank, step, begin, begin + 1_000_000)
            builder.span(rank, step, "forward", begin, begin + 900_000)
            own_ns = int(step * 1_000_000 * US * (own_share if rank else 0.001))
            builder.add("heartbeats", rank, step, ts_ns=T0 + round(begin * US), self_ns=own_ns)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        findings = diagnose_run(run).findings
    assert [finding.kind for finding in findings] == kinds
    assert [[place.rank for place in finding.culprits] for finding in findings] == [[1]] * len(
        kinds
    )


def test_setting_up_is_no_cost_of_the_job() -> None:
    """The whole of a short attempt holds what making the hooks took; its steps do not."""
    early = {rank: {"cost_ratio": 0.04} for rank in range(4)}
    assert judged(early, 8_000.0, [0.01] * STEPS).findings == ()
    assert judged(early, 60_000.0, [0.01] * STEPS).findings != ()


STARTING_S, STEPS_PER_S = 10, 4
FILES = {"segments": (0, 5, 10, 12, 100), "merged": (0, 100)}
"""Seconds at which files of heartbeats end: some hold what comes before the first step only."""


def _starting_job(folder: Path, training_s: int, files: tuple[int, ...]) -> Path:
    """Hooks cost 1 % of the time, and 0.4 s more in the first second of steps."""
    builder = RunBuilder(folder, 2, ParallelLayout.from_sizes(dp=2))
    for rank in range(2):
        for step in range(training_s * STEPS_PER_S):
            begin = STARTING_S * 1e6 + step * 1e6 / STEPS_PER_S
            builder.step(rank, step, begin, begin + 250_000)
            builder.span(rank, step, "forward", begin, begin + 200_000)
    for begins, ends in pairwise(files):
        for second in range(begins, min(ends, STARTING_S + training_s + 1)):
            training = second - STARTING_S
            step = training * STEPS_PER_S - 1 if training > 0 else -1
            own_ms = 10 * second + (400 if training > 0 else 0)
            times = {"ts_ns": T0 + second * 10**9, "self_ns": own_ms * 10**6}
            for rank in range(2):
                builder.add("heartbeats", rank, step, **times)
        builder.publish()
    builder.rank_files()
    return builder.folder


@pytest.mark.parametrize("training_s", [4, 20])
def test_setting_up_is_no_finding_however_heartbeats_are_spread_over_files(
    tmp_path: Path, training_s: int
) -> None:
    answers = []
    for name, files in FILES.items():
        with open_run(_starting_job(tmp_path / name, training_s, files)) as run:
            costs = run.ask("hook_cost", step_min=0).to_pylist()
            by_step = run.ask("hook_cost_by_step", step_min=0).to_pylist()
            answers.append((costs, by_step, diagnose_run(run)))
    assert answers[0] == answers[1]
    costs, _, diagnosis = answers[0]
    assert [row["elapsed_ms"] for row in costs] == [training_s * 1000] * 2
    assert diagnosis.findings == ()
    texts = [v.checked or v.not_enough[0].missing for v in diagnosis.verdicts if v.detector == NAME]
    assert texts == [
        "No heartbeats over five seconds of steps after warm-up: what the hooks cost is not judged."
        if training_s == 4
        else "The hooks take 1 % of the time, mean over ranks (the most on one rank: 1 %), and "
        "dropped no rows."
    ]
