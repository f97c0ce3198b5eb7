"""Cells of StragglerAnalysis traces: pauses are taken out of compute, of such traces only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.statistics.peers import work_of
from diagnosis.statistics.phase_times import phase_times
from diagnosis.statistics.rank_tables import Ranks, placed
from diagnosis.statistics.straggler_cells import CELLS, straggler_cells, without_pauses
from sample_traces.generate.straggler_trace import MegatronJob
from tests.diagnosis.work_tables import phase_tables, tables
from tests.whatif_traces import generated
from trace_hooks.layout import ParallelLayout

LAYOUT = ParallelLayout.from_sizes(pp=2, dp=4)
STEPS = 20


def answers(pause_s: float) -> dict[str, pa.Table]:
    operations, _ = generated(MegatronJob(2, 4, num_steps=STEPS, pause_s=pause_s))
    phases = phase_tables(LAYOUT, STEPS, lambda rank, step: {"compute_ms": 500.0, "gc_ms": 0.0})
    work = tables(LAYOUT, STEPS, lambda rank, step: 500.0, noise=0.0)
    return {CELLS: operations, **work, **phases}


def ranks_of(given: dict[str, pa.Table]) -> Ranks:
    return placed(np.arange(LAYOUT.world_size), given["rank_places"])


def test_a_pause_counts_as_a_collection_and_not_as_compute() -> None:
    given = answers(pause_s=0.1)
    cells = straggler_cells(given, ranks_of(given))
    assert cells is not None
    assert len(cells.pause_ms) == STEPS  # one in each step
    (rank, step), pause_ms = next(iter(cells.pause_ms.items()))
    assert pause_ms == pytest.approx(100, rel=0.2)
    times = phase_times(given)
    assert times.phases["compute"][rank, step] == pytest.approx(500 - pause_ms)
    assert times.phases["gc"][rank, step] == pytest.approx(pause_ms)
    assert work_of(given).work_RS[rank, step] == pytest.approx(500 - pause_ms)
    assert times.phases["compute"].sum() == pytest.approx(
        500 * 8 * STEPS - sum(cells.pause_ms.values())
    )


def test_the_same_answer_gives_the_same_cells() -> None:
    given = answers(pause_s=0.1)
    assert straggler_cells(given, ranks_of(given)) is straggler_cells(given, ranks_of(given))


def test_other_traces_and_jobs_without_pauses_stay_as_they_are() -> None:
    given = answers(pause_s=0.0)
    phases = given["rank_phases"]
    assert without_pauses(phases, given, ranks_of(given)) is phases
    del given[CELLS]
    assert straggler_cells(given, ranks_of(given)) is None
    assert without_pauses(phases, given, ranks_of(given)) is phases
