"""Full EP ranks: a finding where they are seen to compute longer, on made routers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.made_routers import tables_of
from tests.diagnosis.detectors.test_experts import FULL, findings, verdicts, with_calm_end


def test_full_ep_ranks_that_compute_no_longer_are_no_finding() -> None:
    tables = tables_of(FULL, 1)
    times = tables["expert_times"]
    even = pa.array([20.0] * times.num_rows)
    at = times.column_names.index("expert_step_ms")
    tables["expert_times"] = times.set_column(at, "expert_step_ms", even)
    verdict = verdicts(tables)["full"]
    assert verdict.findings == ()
    assert "but compute these no longer." in verdict.set_aside[0]
    tables["expert_times"] = times.slice(0, 0)
    assert "was not recorded" in verdicts(tables)["full"].set_aside[0]


def test_a_full_ep_rank_of_the_past_was_not_timed() -> None:
    tables = tables_of(replace(FULL, num_steps=60), 1)
    tables["expert_load"] = with_calm_end(tables["expert_load"], FULL)
    verdict = verdicts(tables)["full"]
    assert verdict.findings == ()
    assert (
        "from step 30 to 59, not since then; what it cost was not measured."
        in (verdict.set_aside[0])
    )


def test_a_full_ep_rank_is_named_with_its_cost() -> None:
    (finding,) = findings(tables_of(FULL, 1))
    assert finding.title == "Experts of rank 1 are given more tokens than others"
    assert [place.rank for place in finding.culprits] == [1]
    assert finding.cost is not None
    assert finding.cost.ms_per_step > 5
    assert finding.slowdown == pytest.approx(1.25, abs=0.1)


def with_times(tables: dict[str, pa.Table], step_ms: Mapping[int, float | None]) -> pa.Table:
    """The answer expert_times with other times of experts, by rank."""
    times = tables["expert_times"]
    at = times.column_names.index("expert_step_ms")
    values = [step_ms[rank] for rank in times["rank"].to_pylist()]
    return times.set_column(at, "expert_step_ms", pa.array(values, pa.float64()))


def test_a_full_ep_rank_of_which_one_holder_was_not_timed() -> None:
    tables = tables_of(FULL, 1)
    places = tables["expert_places"].to_pylist()
    for row in places:
        row["ranks"] = [*row["ranks"], row["ranks"][0] + 4]
    tables["expert_places"] = pa.Table.from_pylist(places)
    (finding,) = findings(tables)
    assert [place.rank for place in finding.culprits] == [1, 5]
    assert finding.evidence[0].sentence.startswith("Rank 1 computes experts for")
    tables["expert_times"] = with_times(tables, {0: 30.0, 1: None, 2: 30.0, 3: 30.0})
    assert "was not recorded" in verdicts(tables)["full"].set_aside[0]


def in_pipeline(tables: dict[str, pa.Table], num_stages: int) -> dict[str, pa.Table]:
    """The two layers on the first stage, and healthy ones like the first on the others."""
    load, places = tables["expert_load"], tables["expert_places"].to_pylist()
    healthy = load.filter(pc.equal(load["layer"], 0))
    loads, of_stages = [load], list(places)
    for layer in range(2, 2 * num_stages):
        name = f"layers.{layer}.mlp.router"
        here = healthy.set_column(1, "layer", pa.array([layer] * healthy.num_rows, pa.int32()))
        loads.append(here.set_column(2, "name", pa.array([name] * healthy.num_rows)))
        of_stages += [
            {**row, "layer": layer, "name": name, "ranks": [row["ranks"][0] + 4 * (layer // 2)]}
            for row in places
            if row["layer"] == 0
        ]
    return {**tables, "expert_load": pa.concat_tables(loads),
            "expert_places": pa.Table.from_pylist(of_stages)}  # fmt: skip


@pytest.mark.parametrize("num_stages", [1, 8])
def test_how_much_longer_a_full_ep_rank_should_take_is_that_of_its_own_layers(num_stages) -> None:
    tables = tables_of(FULL, 0)
    tables["expert_times"] = with_times(tables, {0: 30.0, 1: 32.7, 2: 30.0, 3: 30.0})
    verdict = verdicts(in_pipeline(tables, num_stages))["full"]
    assert verdict.findings == ()
    assert "but compute these no longer." in verdict.set_aside[0]
