"""Findings on experts, on made routers: found in time and by name, and nothing of healthy ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.made_routers import FAULTS, HEALTHY, Router, tables_of, until
from diagnosis.detectors import dead_expert, expert_imbalance, hot_expert, router_collapse
from diagnosis.findings import Finding, Verdict

DETECTORS = {"hot": hot_expert, "dead": dead_expert, "collapsed": router_collapse,
             "full": expert_imbalance}  # fmt: skip
SIZES = ((8, 2), (16, 1), (64, 6), (128, 8))
HOT = Router("hot", 8, 2, 1_024, 80, onset=30, expert=5, times=3.0)
DEAD = Router("dead", 16, 2, 1_024, 160, onset=40, expert=3)
COLLAPSED = Router("collapsed", 16, 1, 1_024, 80, onset=30, expert=4, few=2)
FULL = Router("full", 16, 2, 2_048, 80, onset=30, expert=6, times=1.6)


def verdicts(tables: Mapping[str, pa.Table]) -> dict[str, Verdict]:
    judged = {kind: detector.detect(tables, 0) for kind, detector in DETECTORS.items()}
    return {kind: verdict for kind, verdict in judged.items() if verdict is not None}


def findings(tables: Mapping[str, pa.Table]) -> list[Finding]:
    return [finding for verdict in verdicts(tables).values() for finding in verdict.findings]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tokens", [1_024, 4_096])
@pytest.mark.parametrize("kind", HEALTHY)
def test_healthy_routers_have_no_findings(kind, tokens, size) -> None:
    router = Router(kind, *size, tokens, 110, layers=1, onset=110)
    tables = tables_of(router, seed=tokens + size[0])
    assert findings(tables) == []
    assert all(verdict.checked or verdict.not_enough for verdict in verdicts(tables).values())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("router", "within"), [(HOT, 20), (DEAD, 100), (COLLAPSED, 20), (FULL, 20)]
)
def test_a_fault_is_found_in_time_and_named_since_its_onset(router, within, seed) -> None:
    tables = tables_of(router, seed)
    (finding,) = findings(until(tables, router.onset + within))
    assert finding.kind == DETECTORS[router.kind].NAME
    assert abs(finding.first_step - router.onset) <= 1
    assert f"since step {finding.first_step}" in finding.text
    assert finding.ongoing
    assert findings(until(tables, router.onset + 10)) == []
    (whole,) = findings(tables)
    assert (whole.kind, whole.first_step) == (finding.kind, finding.first_step)


def test_a_hot_expert_is_named_with_the_ranks_that_hold_it_and_what_they_cost() -> None:
    (finding,) = findings(tables_of(HOT, 1))
    assert finding.title == "Expert 5 of layer 1 is given too many tokens"
    assert finding.text == (
        "In the median step expert 5 of layer 1 (it lies on rank 2) takes 3.0 times the mean load, "
        "since step 30."
    )
    assert (
        finding.cause == "In the median step the router sends 37% of its choices to 1 of 8 experts."
    )
    assert [place.rank for place in finding.culprits] == [2]
    assert finding.severity == "urgent"
    assert finding.cost is not None
    assert 5 < finding.cost.ms_per_step < 20
    assert finding.evidence[0].number == pytest.approx(3.0, abs=0.1)


def with_calm_end(load: pa.Table, router: Router) -> pa.Table:
    """Sixty steps, followed by sixty without a fault."""
    calm = tables_of(replace(router, num_steps=60, onset=60), 2)["expert_load"]
    later = calm.set_column(0, "step", pa.array([n + 60 for n in calm["step"].to_pylist()]))
    return pa.concat_tables([load, later])


def test_what_is_over_is_past() -> None:
    tables = tables_of(replace(HOT, num_steps=60), 1)
    tables["expert_load"] = with_calm_end(tables["expert_load"], HOT)
    (finding,) = findings(tables)
    assert (finding.severity, finding.first_step, finding.last_step) == ("past", 30, 59)
    assert "from step 30 to 59, not since then" in finding.text
    assert finding.cost is None


def in_all_layers(tables: dict[str, pa.Table], num_layers: int) -> dict[str, pa.Table]:
    """The faulty layer many times."""
    load = tables["expert_load"]
    faulty = load.filter(pc.equal(load["layer"], 1))
    copies = [
        faulty.set_column(1, "layer", pa.array([layer] * faulty.num_rows, pa.int32()))
        for layer in range(num_layers)
    ]
    return {**tables, "expert_load": pa.concat_tables(copies)}


def test_of_routers_of_one_layer_the_one_with_the_hot_expert_is_named() -> None:
    tables = tables_of(HOT, 1)
    load = tables["expert_load"]
    both = pa.array([1] * load.num_rows, pa.int32())
    (finding,) = findings({**tables, "expert_load": load.set_column(1, "layer", both)})
    name = "layers.1.mlp.router"
    assert finding.title == f"Expert 5 of layer 1 ({name}) is given too many tokens"
    assert dict(finding.evidence[0].view)["expert"] == (1, 5, 1)
    assert f"expert 5 of layer 1 ({name}) had" in finding.evidence[0].sentence


@pytest.mark.parametrize(
    ("router", "title"),
    [
        (HOT, "Expert 5 of 6 layers is given too many tokens"),
        (DEAD, "Expert 3 of 6 layers is given no tokens"),
        (COLLAPSED, "The routers of layers 0, 1, 2 and 3 more have collapsed"),
    ],
)
def test_many_layers_at_once_are_one_finding(router, title) -> None:
    (finding,) = findings(in_all_layers(tables_of(router, 1), 6))
    assert finding.title == title


def test_a_collapsed_router_is_not_also_hot_and_dead() -> None:
    tables = tables_of(replace(COLLAPSED, num_steps=160), 1)
    (finding,) = findings(tables)
    assert finding.kind == "router_collapse"
    assert "In layer 1 2 of 16 experts take 90% of the tokens, since step 30." in finding.text


def test_dead_experts_need_tokens_to_stand_out() -> None:
    few = replace(DEAD, tokens=1, top_k=1, experts=64)
    verdict = verdicts(tables_of(few, 1))["dead"]
    assert verdict.findings == ()
    assert verdict.not_enough[0].missing.startswith("Experts have so few tokens")


def test_an_uneven_start_that_lasts_is_a_finding() -> None:
    always = replace(HOT, onset=0)
    (finding,) = findings(tables_of(always, 1))
    assert (finding.kind, finding.first_step) == ("hot_expert", 0)


def test_an_uneven_start_that_settles_is_said() -> None:
    settling = Router("settling", 128, 8, 4_096, 90, layers=1, onset=90, settle_steps=40)
    verdict = verdicts(tables_of(settling, 3))["hot"]
    assert verdict.findings == ()
    assert "routers settle when training begins" in verdict.set_aside[0]


def with_capacity(load: pa.Table, factor: float) -> pa.Table:
    """What experts of a capacity take, the other choices being dropped."""
    rows = load.to_pylist()
    for row in rows:
        choices = sum(row["tokens"])
        most = int(factor * choices / len(row["tokens"]))
        row["tokens"] = [min(num, most) for num in row["tokens"]]
        row["dropped"] = choices - sum(row["tokens"])
    return pa.Table.from_pylist(rows, load.schema)


def test_experts_that_are_full_hide_what_the_router_wants() -> None:
    hot = replace(HOT, experts=16, onset=0, num_steps=120)
    tables = tables_of(hot, 1)
    tables["expert_load"] = with_capacity(tables["expert_load"], 1.25)
    found = verdicts(tables)
    for kind in ("hot", "collapsed", "full"):
        assert found[kind].findings == ()
        (missing,) = found[kind].not_enough
        assert missing.missing.startswith("Routers of layer 1 leave out up to 11% of their choices")
        assert "1 layer " in str(found[kind].checked)
    fair = tables_of(Router("fair", 16, 2, 4_096, 60, onset=60), 1)
    fair["expert_load"] = with_capacity(fair["expert_load"], 1.25)
    assert verdicts(fair)["hot"].not_enough == ()


def test_an_expert_that_was_dead_twice() -> None:
    first = tables_of(replace(DEAD, num_steps=150, onset=0), 1)["expert_load"]
    parts, begin = [first], 150
    for router in (replace(DEAD, num_steps=700, onset=700), replace(DEAD, num_steps=150, onset=0)):
        load = tables_of(router, begin)["expert_load"]
        steps = pa.array([step + begin for step in load["step"].to_pylist()])
        parts.append(load.set_column(0, "step", steps))
        begin += router.num_steps
    tables = {**tables_of(DEAD, 1), "expert_load": pa.concat_tables(parts)}
    verdict = dead_expert.detect(tables, 0)
    assert verdict is not None
    (finding,) = verdict.findings
    assert finding.episodes == ((0, 149), (850, 999))
    assert "in steps 0 to 149 and since step 850." in finding.text
    assert finding.cause == "The router no longer chooses 1 of 16 experts."


@pytest.mark.parametrize("kind", FAULTS)
def test_too_few_steps_and_no_routers(kind) -> None:
    tables = tables_of(Router(kind, 16, 1, 1_024, 15), 1)
    verdict = DETECTORS[kind].detect(tables, 0)
    assert verdict is not None
    assert verdict.not_enough
    assert verdict.findings == ()
    assert DETECTORS[kind].detect(until(tables, 0), 0) is None
