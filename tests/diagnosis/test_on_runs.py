"""The detector on whole runs: recorded with a real fault, generated with planted ones, imported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from app.analysis import diagnosis as findings
from app.analysis.diagnosis import diagnose_run, tables_of
from diagnosis.detectors import diagnose
from diagnosis.detectors.slow_worker import detect
from diagnosis.findings import Diagnosis
from ingest.imports.importer import open_any
from ingest.run import open_run
from sample_traces import RECORDED
from sample_traces.generate.faults import KINDS, SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.diagnosis.work_tables import tables as made_tables
from tests.folders import NO_TRACES, TRACES
from trace_hooks.layout import ParallelLayout

SMALL = {"num_ranks": 8, "pp": 2, "tp": 2, "num_steps": 30}
NOT_ONE_WORKER = sorted(set(KINDS) - {"slow_worker"})


def diagnosis_of(folder: Path) -> Diagnosis:
    with open_any(folder) as run:
        return diagnose_run(run)


def generated(folder: Path, *faults: str, seed: int = 1, **sizes: object) -> Diagnosis:
    planted = tuple(SyntheticFault.parse(fault) for fault in faults)
    job = SyntheticJob(**{**SMALL, "level": "steps", **sizes}, seed=seed, faults=planted)  # type: ignore[arg-type]
    generate(job, folder / "run")
    return diagnosis_of(folder / "run")


def named(diagnosis: Diagnosis) -> list[tuple[int, int]]:
    return sorted((f.culprits[0].rank, f.first_step) for f in diagnosis.findings)


LONG = {"num_ranks": 32, "pp": 4, "tp": 2}
"""With room for 2,400 cells: 37 to 75 steps of all ranks, 150 to 300 of the 8 ranks of a stage."""


def test_a_fault_that_began_before_the_steps_looked_at_keeps_its_onset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "MOST_CELLS", 2_400)
    job = {**LONG, "num_steps": 290}
    diagnosis = generated(tmp_path, "slow_worker=13,x=1.5,from=170", **job)
    assert named(diagnosis) == [(13, 170)]
    assert "since step 170." in diagnosis.findings[0].text


def test_an_onset_that_is_too_far_back_is_described_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "MOST_CELLS", 2_400)
    for num_steps in (310, 315):  # the name of the finding stays while the run goes on
        job = {**LONG, "num_steps": num_steps}
        folder = tmp_path / str(num_steps)
        diagnosis = generated(folder, "slow_worker=13,x=1.5,from=20", **job)
        assert named(diagnosis) == [(13, 150)]
        assert "since step 150 or earlier." in diagnosis.findings[0].text


def test_steps_whose_numbers_are_far_apart_are_all_looked_at(tmp_path: Path) -> None:
    """A log may count samples, or tokens: that is no more to look at."""
    apart, late_from = 100_000, 40
    for rank in range(8):
        lines = []
        for at in range(80):
            longer = 80.0 if at >= late_from else 0.0
            own = longer if rank == 2 else 0.0
            cells = {"compute_ms": 200.0 + own, "data_ms": 5.0, "comm_ms": 45.0 + longer - own}
            line = {"step": at * apart, "rank": rank, "step_ms": 250.0 + longer, **cells}
            lines.append(json.dumps(line))
        (tmp_path / f"rank_{rank}.jsonl").write_text("\n".join(lines) + "\n")
    diagnosis = diagnosis_of(tmp_path)
    assert named(diagnosis) == [(2, late_from * apart)]
    (finding,) = diagnosis.findings
    assert finding.cost is not None
    assert finding.cost.num_steps == 80 - late_from


def recorded(name: str, tmp_path: Path) -> tuple[Diagnosis, dict]:
    shutil.copytree(RECORDED / name, tmp_path / name)
    with open_run(tmp_path / name) as run:
        return diagnose_run(run), json.loads((tmp_path / name / "run.json").read_text())


def test_the_recorded_slow_rank(tmp_path: Path) -> None:
    diagnosis, info = recorded("slow_rank", tmp_path)
    truth = info["truth"]["faults"][0]
    assert [f.culprits[0].rank for f in diagnosis.findings] == [truth["rank"]]
    finding = diagnosis.findings[0]
    assert abs(finding.first_step - truth["from"]) <= 1
    assert finding.severity == "urgent"
    assert finding.confidence == "high"
    assert finding.cost is not None
    assert finding.cost.share > 0.1
    assert set(finding.victims) == {4, 7}  # its tensor and its data-parallel neighbour


def test_the_recorded_healthy_job(tmp_path: Path) -> None:
    diagnosis, _ = recorded("healthy", tmp_path)
    assert diagnosis.findings == ()
    assert diagnosis.judged


@pytest.mark.parametrize("name", ["slow_rank", "healthy"])
def test_while_a_job_runs_the_rank_is_named_after_four_slow_steps_and_nobody_before(
    tmp_path: Path, name: str
) -> None:
    shutil.copytree(RECORDED / name, tmp_path / name)
    with open_run(tmp_path / name) as run:
        tables = tables_of(run, 0, (0, 10**6))
    faults = json.loads((tmp_path / name / "run.json").read_text()).get("truth", {}).get("faults")
    begins = faults[0]["from"] if faults else None
    last_step = max(tables["rank_work"].column("step").to_pylist())
    for newest in range(3, last_step + 1):
        work = tables["rank_work"].filter(pc.field("step") <= newest)
        found = named(diagnose({**tables, "rank_work": work}, 0))
        if begins is None or newest < begins + 3:
            assert found == [], f"at step {newest}"
        else:
            assert found == [(faults[0]["rank"], begins)], f"at step {newest}"


def test_the_evidence_can_be_queried_again(tmp_path: Path) -> None:
    shutil.copytree(RECORDED / "slow_rank", tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        finding = diagnose_run(run).findings[0]
        for evidence in finding.evidence:
            answer = run.ask(evidence.question, **dict(evidence.params)).to_pylist()
            row = next(row for row in answer if row["rank"] == finding.culprits[0].rank)
            if evidence.unit == "x":
                assert row["slowdown"] == pytest.approx(evidence.number, rel=0.02)
            elif evidence.unit == "share":
                assert row["share"] == pytest.approx(evidence.number, rel=0.01)
            elif evidence.question == "rank_phases":
                own_ms = [one["step_ms"] for one in answer if one["rank"] == row["rank"]]
                assert np.mean(own_ms) == pytest.approx(evidence.number, rel=0.05)
            else:
                steps = finding.last_step - finding.first_step + 1
                assert row["wait_caused_ms"] / steps == pytest.approx(evidence.number, rel=0.01)


@pytest.mark.sampled
@pytest.mark.parametrize("x", [1.5, 1.15, 1.05])
def test_three_doses(tmp_path: Path, x: float) -> None:
    diagnosis = generated(tmp_path, f"slow_worker=5,x={x},from=8", level="spans", num_steps=20)
    assert named(diagnosis) == [(5, 8)]
    assert diagnosis.findings[0].confidence == "high"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("sizes", "faults", "expected"),
    [
        ({}, ("slow_worker=4,x=1.3,from=8", "slow_worker=7,x=1.2,from=8"), [(4, 8), (7, 8)]),
        ({"tp": 4}, ("slow_worker=5,x=1.3,from=8",), [(5, 8)]),
        ({"tp": 1}, ("slow_worker=5,x=1.3,from=8",), [(5, 8)]),
        ({"pp": 8, "tp": 1}, ("slow_worker=5,x=1.05,from=8",), [(5, 8)]),
        ({"num_ranks": 1024, "pp": 8, "tp": 8}, ("slow_worker=137,x=1.05,from=9",), [(137, 9)]),
    ],
    ids=["two in one stage", "dp 1", "tp 1", "pipeline only", "1,024 ranks"],
)
def test_layouts(
    tmp_path: Path, sizes: dict, faults: tuple[str, ...], expected: list[tuple[int, int]]
) -> None:
    assert named(generated(tmp_path, *faults, **sizes)) == expected


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_a_healthy_generated_job(tmp_path: Path, seed: int) -> None:
    diagnosis = generated(tmp_path, seed=seed)
    assert diagnosis.findings == ()
    assert diagnosis.judged
    assert diagnosis.set_aside == ()


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("level", ["steps", "spans"])
@pytest.mark.parametrize("kind", NOT_ONE_WORKER)
def test_a_fault_is_the_only_finding(tmp_path: Path, kind: str, level: str) -> None:
    target = {"job": "", "rank": "=1", "host": "=0", "stage": "=1"}[KINDS[kind].target]
    diagnosis = generated(tmp_path, f"{kind}{target},from=10", num_ranks=32, level=level)
    kinds = {finding.kind for finding in diagnosis.findings}
    nameless = {finding.kind for finding in diagnosis.findings if not finding.culprits}
    assert kinds - nameless <= {kind, *_NAMELESS.get(kind, ())}
    assert nameless <= {kind, *_NAMELESS.get(kind, ()), "step_regression"}
    assert len(diagnosis.findings) <= 1 or "step_regression" not in kinds


_NAMELESS = {
    "slow_op": ("step_regression",),
    "many_hosts_slow": ("slow_link", "slow_dp_network"),
}
"""What it is where operations were not recorded by name; where three of four hosts share a switch,
all that crosses hosts is slow, and no switch can be identified."""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("fault", "ranks", "stages", "hosts"),
    [
        ("slow_stage=1,x=1.3,from=10", [], [1], []),
        ("data_loader,ms=100,from=10", [], [], []),
        ("data_loader,ms=30,from=10", [], [], []),
        ("gc_pauses,ms=60,from=10", [], [], []),
        ("host_contention=0,x=1.5,from=10", list(range(8)), [], ["node0000"]),
    ],
)
def test_planted_faults_are_found(
    tmp_path: Path, fault: str, ranks: list[int], stages: list[int], hosts: list[str]
) -> None:
    (finding,) = generated(tmp_path, fault, num_ranks=32, level="spans").findings
    content = finding.to_json()
    assert content["kind"] == fault.split(",")[0].split("=")[0]
    assert (content["ranks"], list(content["stages"]), list(content["hosts"])) == (
        ranks,
        stages,
        hosts,
    )
    assert abs(finding.first_step - 10) <= 2


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
class TestRealTraces:
    """Imports: no finding for jobs with one step or one rank; the one slow worker is found."""

    @pytest.mark.parametrize(
        ("name", "expected"),
        [("AR", ["slow_worker-0-0-16"]), ("SE", ["sequence_imbalance-0-job-16"])],
    )
    def test_straggler_analysis(self, name: str, expected: list[str]) -> None:
        diagnosis = diagnosis_of(TRACES / "straggler_analysis" / f"trace-{name}.parquet")
        assert [finding.id for finding in diagnosis.findings] == expected

    def test_the_last_stage_of_a_trace_is_the_longest(self) -> None:
        diagnosis = diagnosis_of(TRACES / "straggler_analysis" / "trace-ST.parquet")
        assert [(f.kind, f.stages) for f in diagnosis.findings] == [("slow_stage", (3,))]

    def test_sixteen_real_ranks_over_500_steps_are_healthy(self) -> None:
        """Phase timers of a real job; rank 0 has a lasting quirk of some ms."""
        cells = {}
        for file in (TRACES / "fault_injection" / "p1-ext-a-loud" / "baseline").glob(
            "rank_*.jsonl"
        ):
            for line in file.read_text().splitlines():
                row = json.loads(line)
                if "compute_ms" in row:
                    cells[int(file.stem.split("_")[1]), row["step"]] = row["compute_ms"]
        steps = sorted({step for _, step in cells})
        verdict = detect(
            made_tables(
                ParallelLayout.from_sizes(dp=16),
                len(steps),
                lambda rank, step: cells[rank, steps[step]],
                noise=0.0,
            ),
            attempt=0,
        )
        assert len(cells) == 16 * 500
        assert verdict.findings == ()
        assert verdict.set_aside == ()
        assert verdict.checked is not None
