"""Generated machines: seeds, faults and decoys; and that detector and generator share nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sample_traces.generate.machines.faults import EFFECTS
from sample_traces.generate.machines.job import MachineJob, draw_job, draw_kind
from sample_traces.generate.machines.worlds import DOSES, METRICS, MIX, Ranges
from tests.folders import REPO
from trace_hooks.telemetry import names

QUIET = Ranges(
    jitter_per_hour=(0.0, 0.0),
    checkpoint=0.0,
    evaluation=0.0,
    restart=0.0,
    odd=0.0,
    lost=(0.0, 0.0),
)


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_detector_and_generator_import_nothing_of_each_other() -> None:
    generator = sorted((REPO / "sample_traces" / "generate" / "machines").glob("*.py"))
    assert len(generator) >= 5
    for file in generator:
        assert not [n for n in imports(file) if n.startswith(("diagnosis", "app", "ingest"))], file
    for package in ("diagnosis", "ingest", "app", "trace_hooks"):
        for file in sorted((REPO / package).rglob("*.py")):
            names = [n for n in imports(file) if n.startswith("sample_traces.generate.machines")]
            assert not names, file


GENERATOR = REPO / "sample_traces" / "generate" / "machines"
DETECTOR = REPO / "diagnosis" / "detectors" / "faulty_machine"
SHARED = {
    1.4826: "standard deviations of a normal value in its median deviation",
    3_600.0: "seconds of an hour",
    60.0: "hiccups of 5 to 60 s were asked for; and a minute",
}
"""Numbers that both may have, and why."""


def constants(folder: Path, of: type | tuple[type, ...]) -> set:
    return {
        node.value
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, of)
    }


def numbers(folder: Path) -> set[float]:
    """Those above 10, and those of two digits or more: others are in every program."""
    found = {abs(float(value)) for value in constants(folder, (int, float))}
    return {value for value in found if value > 10 or value != float(f"{value:.1g}")}


def test_detector_and_generator_share_no_number() -> None:
    detector, generator = numbers(DETECTOR), numbers(GENERATOR)
    assert {66.0, 0.15} <= detector  # how long a deviation lasts; the share that pauses
    assert {88.0, 0.24} <= generator  # the longest checkpoint, the oddest machine
    assert (detector & generator) - set(SHARED) == set()


def test_the_detector_knows_no_metric_and_no_fault_of_the_generator() -> None:
    known = {metric.name for metric in METRICS} | set(EFFECTS) | set(DOSES)
    assert constants(DETECTOR, str) & known == set()


def test_generated_metrics_are_those_of_the_sampler() -> None:
    assert [metric.name for metric in METRICS if metric.name not in names.METRICS] == []
    changed = {name for e in EFFECTS.values() for name in (*e.own, *e.others)}
    assert changed <= {metric.name for metric in METRICS}
    rare = [metric.name for metric in METRICS if not names.METRICS[metric.name].is_detector_input]
    assert rare == ["gpu_pcie_replays_total", "gpu_ecc_uncorrected_total"]  # written on change


def test_a_seed_gives_the_same_job_again() -> None:
    one, other = (draw_job(7, 700, "ecc", "quiet", num_machines=6) for _ in range(2))
    assert one.fault == other.fault
    assert np.array_equal(one.values_MTN, other.values_MTN, equal_nan=True)
    assert not np.array_equal(one.values_MTN[0], draw_job(8, 700, num_machines=6).values_MTN[0])


def test_kinds_are_drawn_by_their_shares() -> None:
    rng = np.random.default_rng(0)
    kinds = [draw_kind(rng) for _ in range(4_000)]
    assert set(kinds) <= set(EFFECTS)
    assert set(MIX) == set(EFFECTS)
    assert kinds.count("ecc") / 4_000 == pytest.approx(0.389, abs=0.03)


def shift(job: MachineJob, metric: str) -> float:
    """By how much the faulty machine's share of the others' median changes."""
    assert job.fault is not None
    values_TN = job.values_MTN[job.metrics.index(metric)]
    ratio_T = values_TN[:, job.fault.machine] / np.nanmedian(values_TN, axis=1)
    begin = int(job.fault.begin_s)
    before, after = np.nanmedian(ratio_T[:begin]), np.nanmedian(ratio_T[begin + 30 :])
    return float(after / before - 1)


def test_a_dose_is_how_much_of_the_change_there_is() -> None:
    whole = Ranges(**{**QUIET.__dict__, "recorded": (1.0, 1.0), "strength": (1.0, 1.0)})
    shifts = [
        shift(draw_job(3, 900, "thermal", dose, 8, whole), "gpu_sm_clock_mhz") for dose in DOSES
    ]
    assert shifts == pytest.approx([0.6**dose - 1 for dose in DOSES.values()], abs=0.03)


def test_an_unreachable_machine_has_no_samples() -> None:
    job = draw_job(4, 900, "unreachable", "loud", 8, QUIET)
    assert job.fault is not None
    after_MTN = job.values_MTN[:, int(job.fault.begin_s) + 1 :]
    lost_N = np.isnan(after_MTN).all(axis=(0, 1))
    assert np.flatnonzero(lost_N).tolist() == [job.fault.machine]


def test_decoys_are_in_healthy_jobs() -> None:
    decoys = {decoy for seed in range(40) for decoy in draw_job(seed, 600, num_machines=16).decoys}
    wanted = {"checkpoint", "evaluation", "restart", "jitter", "odd machine", "stages"}
    assert decoys == wanted
    lost = [np.isnan(draw_job(seed, 300).values_MTN).mean() for seed in range(8)]
    assert 0.005 < np.mean(lost) < 0.05
