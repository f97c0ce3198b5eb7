"""Traces of StragglerAnalysis, published and generated, as the what-if analysis reads them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from benchmarks.whatif import LOADED_AS
from diagnosis.whatif.operations import Sizes
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace
from tests.folders import NO_TRACES, TRACES

STRAGGLER_TRACES = TRACES / "straggler_analysis"
TRIALS = ("AR", "SE", "ST")
needs_traces = pytest.mark.skipif(not STRAGGLER_TRACES.is_dir(), reason=NO_TRACES)


def loaded(table: pa.Table) -> pa.Table:
    """The file's columns under the names of the question whatif_ops."""
    return table.select(list(LOADED_AS)).rename_columns(list(LOADED_AS.values()))


def published(trial: str) -> tuple[pa.Table, Sizes]:
    meta = yaml.safe_load((STRAGGLER_TRACES / f"meta-{trial}.yaml").read_text())
    table = loaded(pq.read_table(STRAGGLER_TRACES / f"trace-{trial}.parquet"))
    return table, Sizes(meta["dp_size"], meta["pp_size"], meta["dsp_size"])


def generated(job: MegatronJob) -> tuple[pa.Table, Sizes]:
    return loaded(straggler_trace(job)), Sizes(job.dp, job.pp)


def expected(trial: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((STRAGGLER_TRACES / "expected.json").read_text())[trial]
    return content


def check_against(answer: dict[str, Any], trial: str, heat_map: list[list[float]]) -> int:
    """Walk expected.json: every leaf is compared or listed as of no key; returns leaves compared.

    `answer`: the object of `rankscope whatif --json`; `heat_map`: its S_w as rows of stages.
    """
    wanted, seen = expected(trial), 0
    own = {
        "S": answer["S"],
        "T_base": answer["T_base_s"],
        "T_replay": answer["T_s"],
        "T_ideal": answer["T_ideal_s"],
        "sim_discrepancy": answer["fidelity"],
        "S_t": answer["S_t"],
        "S_stage": answer["S_stage"],
        "S_dp": answer["S_dp"],
        "heatmap_pp_by_dp": heat_map,
        "waste": 1 - 1 / answer["S"],
        "MS": {
            "Ms": answer["M_S"],
            "rem": answer["M_S"],
            "tori": answer["T_s"],
            "tideal": answer["T_ideal_s"],
        },
        "MW": {
            "Mw": answer["M_W"],
            "rem": answer["M_W"],
            "tori": answer["T_s"],
            "tideal": answer["T_ideal_s"],
        },
    }
    absolute = {"sim_discrepancy", "Ms", "Mw", "rem"}

    def walk(one: Any, other: Any, name: str) -> None:
        nonlocal seen
        if isinstance(one, dict):
            assert set(one) - set(other) <= {"trem", "tadd", "add"}, name
            for key in other:
                walk(one[key], other[key], key)
        elif isinstance(one, list):
            assert len(one) == len(other), name
            for left, right in zip(one, other, strict=True):
                walk(left, right, name)
        else:
            tolerance = {"abs": 1e-6, "rel": 0} if name in absolute else {"rel": 1e-6, "abs": 0}
            assert other == pytest.approx(one, **tolerance), name
            seen += 1

    left_out = {"steps", "step_S_min", "step_S_max"}  # in no key of --json
    assert set(wanted) == set(own) | left_out
    for key, value in own.items():
        walk(wanted[key], value, key)
    return seen
