"""Labelled runs of real accelerators: verdicts, and the whole way on files made here."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.accuracy import labelled_traces as lt
from sample_traces.generate.phase_log.job import LogFault
from sample_traces.generate.phase_log.simulate import simulate
from sample_traces.generate.phase_log.write import write_log
from tests.benchmarks.accuracy.test_score import finding_of
from tests.sample_traces.generate.phase_log.test_simulate import JOB

ARM = lt.Arm("a", Path(), 3, lt.IN_DATA, (20, 80), "data timer")


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ([finding_of("data_loader", 3)], lt.RIGHT),
        ([finding_of("data_loader", 3), finding_of("step_regression")], lt.RIGHT),
        ([finding_of("data_loader", 3), finding_of("slow_worker", 4)], lt.WITH_OTHERS),
        ([finding_of("allocator_stalls", 3)], lt.WRONG_KIND),
        ([finding_of("data_loader", 3, first=81)], lt.WRONG_KIND),
        ([finding_of("data_loader", 3, 4)], lt.WRONG),
        ([finding_of("step_regression")], lt.MISSED),
        ([], lt.MISSED),
    ],
)
def test_verdicts(findings: list, verdict: str) -> None:
    assert lt.verdict_of(ARM, findings, 16) == verdict


def test_nobody_may_be_named_in_healthy_and_host_wide_runs() -> None:
    healthy, host_wide = lt.Arm("h", Path()), lt.Arm("w", Path(), steps=(20, 80))
    host = finding_of("host_contention", hosts=["node 0"])
    every = finding_of("host_contention", *range(16))
    assert lt.verdict_of(healthy, [finding_of("step_regression")], 16) == lt.QUIET
    assert lt.verdict_of(healthy, [host], 16) == lt.NAMED
    assert lt.verdict_of(host_wide, [host, every], 16) == lt.QUIET
    assert lt.verdict_of(host_wide, [finding_of("slow_worker", 2)], 16) == lt.NAMED


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no labelled run there"):
        lt.main([str(tmp_path)])


@pytest.mark.long
def test_archives_with_labels(tmp_path: Path) -> None:
    job = replace(JOB, num_steps=160, hides=(("comm", 1.0),))
    fault = LogFault((5,), "data", 60.0, 60, 159)
    labels = {}
    for name, faults in (("a-baseline", ()), ("a-injected", (fault,))):
        faulty = replace(job, faults=faults)
        folder = write_log(faulty, simulate(faulty), tmp_path / name)
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(folder, "ranks")
        label = {"fault": None, "steps": None, "rank": None, "host_wide": False}
        if faults:
            label |= {"fault": "stall in the data timer", "steps": [60, 159], "rank": 5}
        labels[name] = label
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    healthy, injected = lt.judged_in([tmp_path])
    assert (healthy.verdict, injected.verdict) == (lt.QUIET, lt.RIGHT)
    assert injected.onset_error == 0
    table = lt.as_table([healthy, injected])
    assert table[-1] == "nobody named: 1, right: 1."


def test_manifests_say_which_faults_name_nobody(tmp_path: Path) -> None:
    for name, kind in (("net", "topo_5c"), ("gc", "8a")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.yaml").write_text(
            f"inject_kind: {kind}\ninject_window_measure: [100, 300]\nvictim_local_rank: 7\n"
        )
    arms = {arm.name: arm for arm in lt.arms_in(tmp_path, tmp_path)}
    assert (arms["gc-injected"].rank, arms["gc-injected"].kinds) == (7, lt.IN_DATA)
    assert arms["net-injected"].rank is None
