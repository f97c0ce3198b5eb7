"""`rankscope diagnose --json` on every real trace with a known answer, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from tests.folders import TRACES

FAULTS = TRACES / "fault_injection"
LABELLED = TRACES / "fault_injection_2"
LABELS: dict[str, Any] = (
    json.loads((LABELLED / "labels.json").read_text()) if LABELLED.is_dir() else {}
)

KINDS_OF = {
    "copies in device memory": {"slow_worker", "launch_skew", "host_contention"},
    "allocator stall": {"slow_worker", "launch_skew", "host_contention", "allocator_stalls"},
    "garbage collection stall": {"data_loader", "gc_pauses", "slow_worker", "launch_skew"},
}
"""Kinds that fit what was injected, by how its label begins."""

pytestmark = pytest.mark.skipif(
    not TRACES.is_dir(), reason="no folder of real traces next to the checkout"
)


def diagnosed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, Any]:
    code = main(["diagnose", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("path", "kind", "ranks", "stages"),
    [
        ("fault_injection/p1-ext-a-loud/injected", "slow_worker", [7], []),
        ("fault_injection/p3-sw-a-loud/injected", "data_loader", [7], []),
        ("megascan/pp4", "slow_stage", [], [3]),
        ("megascan/pp4-aggregated.json", "slow_stage", [], [3]),
        ("kineto/dlrm8.tar.gz", "slow_worker", [7], []),
        ("kineto/megatron_tp2", "slow_worker", [0], []),
        ("flight_recorder/gpu_error_1st", "missing_rank", [12, 14], []),
        ("flight_recorder/lock_gil_1st", "missing_rank", [9, 14], []),
        ("straggler_analysis/trace-AR.parquet", "slow_worker", [0], []),
    ],
)
def test_the_one_finding(
    path: str, kind: str, ranks: list[int], stages: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = diagnosed(capsys, TRACES / path)
    assert code == 3
    (finding,) = output["findings"]
    assert (finding["kind"], finding["ranks"], finding["stages"]) == (kind, ranks, stages)
    assert {"steps", "cost_ms_per_step", "confidence", "cause", "evidence", "alternatives"} <= set(
        finding
    )


@pytest.mark.parametrize("case", ["p1-ext-a-loud", "p3-sw-a-loud"])
def test_the_steps_of_the_injected_faults(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, output = diagnosed(capsys, FAULTS / case / "injected")
    first, last = output["findings"][0]["steps"]
    assert abs(first - 100) <= 2
    assert abs(last - 299) <= 2


@pytest.mark.parametrize("path", ["p1-ext-a-loud/baseline", "p2-sw-c-loud/injected"])
def test_healthy_or_not_identifiable(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = diagnosed(capsys, FAULTS / path)
    assert (code, output["findings"]) == (0, [])
    unseen = {one["kind"]: one for one in output["not_identifiable"]}
    assert "--baseline" in unseen["comm_regression"]["remedy"]
    assert output["clock"]["num_ranks"] == 16


def test_a_baseline_shows_what_is_slow_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """The baseline of another mode of the same job: what it lacks is the communication."""
    good = FAULTS / "p1-ext-a-loud" / "baseline"
    code, output = diagnosed(capsys, FAULTS / "p2-sw-c-loud" / "injected", "--baseline", good)
    assert (code, [finding["kind"] for finding in output["findings"]]) == (3, ["comm_regression"])
    assert output["not_identifiable"] == []


def test_a_loader_without_workers_starves_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    (starving,) = (TRACES / "kineto" / "resnet50").glob("workers0__*")
    code, output = diagnosed(capsys, starving)
    assert (code, [finding["kind"] for finding in output["findings"]]) == (3, ["data_loader"])
    (fed,) = (TRACES / "kineto" / "resnet50").glob("workers4__*")
    code, output = diagnosed(capsys, fed)
    assert (code, output["findings"]) == (0, [])


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("arm", sorted(LABELS))
def test_labelled_runs_of_real_accelerators(arm: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The labelled rank alone, or nobody where all ranks of the host are slower or none is."""
    label = LABELS[arm]
    _, output = diagnosed(capsys, LABELLED / f"{arm}.tar.gz")
    naming = [finding for finding in output["findings"] if finding["ranks"]]
    if label["rank"] is None:
        assert naming == []
        return
    (finding,) = naming
    assert finding["ranks"] == [label["rank"]]
    (fitting,) = (kinds for begin, kinds in KINDS_OF.items() if label["fault"].startswith(begin))
    assert finding["kind"] in fitting
    first, last = label["steps"]
    assert first - 2 <= finding["steps"][0] <= finding["steps"][1] <= last + 2
