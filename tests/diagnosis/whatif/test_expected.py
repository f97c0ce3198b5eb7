"""Every number published with the paper's three traces, to 1e-6."""

from __future__ import annotations

import numpy as np
import pytest

from app.commands.whatif import as_json
from diagnosis.whatif.analysis import prepare, what_if
from diagnosis.whatif.operations import dense
from diagnosis.whatif.timeline import replica, timeline
from tests.whatif_traces import (
    STRAGGLER_TRACES,
    TRIALS,
    check_against,
    expected,
    needs_traces,
    published,
)

pytestmark = needs_traces


@pytest.mark.parametrize("trial", TRIALS)
def test_every_number(trial: str) -> None:
    metrics = what_if(prepare(dense(*published(trial))))
    compared = check_against(as_json(metrics), trial, metrics.S_w_PD.tolist())
    assert compared == 14 + len(metrics.S_t) + sum(metrics.S_w_PD.shape) + metrics.S_w_PD.size
    per_step = metrics.T_s_S / metrics.T_ideal_s_S
    assert len(per_step) == expected(trial)["steps"]
    assert per_step.min() == pytest.approx(expected(trial)["step_S_min"], rel=1e-6)
    assert per_step.max() == pytest.approx(expected(trial)["step_S_max"], rel=1e-6)
    assert metrics.notes == ()


@pytest.mark.parametrize("trial", TRIALS)
def test_every_step(trial: str) -> None:
    import json

    metrics = what_if(prepare(dense(*published(trial))))
    stored = json.loads((STRAGGLER_TRACES / f"result-{trial}.json").read_text())
    for name, found_S in (("step_t_base", metrics.T_base_s_S), ("step_t_nodelay", metrics.T_s_S)):
        wanted = [stored[name][str(step)] for step in metrics.step_S]
        np.testing.assert_allclose(found_S, wanted, rtol=1e-6)


@pytest.mark.parametrize(("trial", "ranks"), [("AR", (0,)), ("SE", (80, 118)), ("ST", (7,))])
def test_the_worst_workers(trial: str, ranks: tuple[int, ...]) -> None:
    assert what_if(prepare(dense(*published(trial)))).M_W_ranks == ranks


def test_the_timeline_has_the_lengths_of_its_step() -> None:
    prepared = prepare(dense(*published("ST")))
    metrics = what_if(prepared)
    step = int(metrics.step_S[3])
    shown = [timeline(prepared, step, replica(prepared, dp)).rows for dp in (0, 1)]
    for column, wanted in (
        ("ideal_end_s", metrics.T_ideal_s_S[3]),
        ("replayed_end_s", metrics.T_s_S[3]),
        ("end_s", metrics.T_base_s_S[3]),
    ):
        found = max(float(np.max(rows[column].to_numpy())) for rows in shown)
        assert found == pytest.approx(wanted, rel=1e-6)
    for rows in shown:
        for before, after in (("start_s", "end_s"), ("ideal_start_s", "ideal_end_s")):
            assert (rows[before].to_numpy() <= rows[after].to_numpy() + 1e-2).all()
