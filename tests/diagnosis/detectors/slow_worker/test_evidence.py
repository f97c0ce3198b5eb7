"""Every number of a finding is what its question gives; the peers rule is that of the SQL macro."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from app.analysis.diagnosis import diagnose_run, tables_of
from diagnosis.findings import Evidence
from diagnosis.statistics.peers import peers_of, slowdowns, work_of
from ingest.run import Run, open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate

FROM, STEPS = 10, 60
Cells = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def generated(folder: Path, sizes: dict[str, int], slow: tuple[int, ...]) -> Run:
    faults = tuple(SyntheticFault.parse(f"slow_worker={rank},x=1.5,from={FROM}") for rank in slow)
    job = SyntheticJob(**sizes, num_steps=STEPS, level="steps", seed=1, faults=faults)
    generate(job, folder / "run")
    return open_run(folder / "run")


def cells_of(run: Run, evidence: Evidence) -> Cells:
    """Compute of every rank and step as rank_work gives it, ms."""
    rows = run.ask(evidence.question, **dict(evidence.params)).to_pylist()
    cells_RS = np.full((8, STEPS), np.nan)
    for row in rows:
        cells_RS[row["rank"], row["step"]] = row["compute_ms"]
    return cells_RS


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("sizes", "slow", "whom"),
    [
        ({"num_ranks": 16, "pp": 2, "tp": 2}, (5,), "other replicas"),
        ({"num_ranks": 8, "pp": 2, "tp": 2}, (5,), "the same stage"),
        ({"num_ranks": 5, "pp": 1, "tp": 1}, (0, 1, 3), "other replicas"),
        ({"num_ranks": 28, "pp": 1, "tp": 1}, tuple(range(0, 20, 2)), "other replicas"),
    ],
    ids=["dp", "stage", "three of five", "ten of 28"],
)
def test_against_peers_the_question_gives_the_number_of_the_sentence(
    tmp_path: Path, sizes: dict[str, int], slow: tuple[int, ...], whom: str
) -> None:
    with generated(tmp_path, sizes, slow) as run:
        findings = diagnose_run(run).findings
        assert sorted(f.culprits[0].rank for f in findings) == list(slow)
        for finding in findings:
            assert whom in finding.evidence[0].sentence
            about_x = [e for e in finding.evidence if e.unit == "x"]
            assert [e.question for e in about_x] == ["slowest_ranks"] * 2
            for evidence in about_x:
                answer = run.ask(evidence.question, **dict(evidence.params)).to_pylist()
                row = next(r for r in answer if r["rank"] == finding.culprits[0].rank)
                assert row["slowdown"] == pytest.approx(evidence.number, abs=1e-4)
                assert f"{evidence.number:.2f}x" in evidence.sentence


def test_where_accused_ranks_change_the_median_both_numbers_are_shown(tmp_path: Path) -> None:
    with generated(tmp_path, {"num_ranks": 5, "pp": 1, "tp": 1}, (0, 1, 3)) as run:
        findings = diagnose_run(run).findings
        assert len(findings) == 3
        for finding in findings:
            first = finding.evidence[0]
            assert finding.slowdown == pytest.approx(1.5, rel=0.02)
            assert first.number < finding.slowdown - 0.1
            assert "Accused ranks are left out of that median; with them" in first.sentence


def test_against_the_own_past_the_cells_and_the_rule_of_the_sentence_give_the_number(
    tmp_path: Path,
) -> None:
    with generated(tmp_path, {"num_ranks": 8, "pp": 8, "tp": 1}, (5,)) as run:
        (finding,) = diagnose_run(run).findings
        assert finding.slowdown == pytest.approx(1.5, rel=0.02)
        ratio, median = finding.evidence[:2]
        assert {ratio.question, median.question} == {"rank_work"}
        assert "median before its greatest change" in ratio.sentence
        cells_RS = cells_of(run, ratio)
        assert np.isfinite(cells_RS).all()
        past_RS = cells_RS / np.array([[level_before(row_S)] for row_S in cells_RS])
        others_S = np.median(np.delete(past_RS, 5, axis=0), axis=0)
        since = slice(finding.first_step, finding.last_step + 1)
        assert np.median((past_RS[5] / others_S)[since]) == pytest.approx(ratio.number, abs=1e-4)
        assert np.median(cells_of(run, median)[5, since]) == pytest.approx(median.number, abs=1e-3)
        before, now = (float(n) for n in re.findall(r"([\d.,]+) ms", median.sentence))
        assert before == pytest.approx(np.median(cells_RS[5, : finding.first_step]), rel=0.01)
        assert now == pytest.approx(median.number, rel=0.01)


def test_against_the_other_replica_the_cells_give_the_number(tmp_path: Path) -> None:
    with generated(tmp_path, {"num_ranks": 8, "pp": 4, "tp": 1}, (5,)) as run:
        (finding,) = diagnose_run(run).findings
        assert (finding.first_step, finding.culprits[0].rank) == (FROM, 5)
        ratio = next(e for e in finding.evidence if "the other stages of its rep" in e.sentence)
        coords = dict(finding.culprits[0].coords)
        cells_PDS = cells_of(run, ratio).reshape(4, 2, STEPS)  # stages, replicas
        longer_PS = np.log(cells_PDS[:, coords["dp"]] / cells_PDS[:, 1 - coords["dp"]])
        usual_S = np.median(np.delete(longer_PS, coords["pp"], axis=0), axis=0)
        own_S = np.exp(longer_PS[coords["pp"]] - np.maximum(usual_S, 0.0))[FROM:]
        assert np.median(own_S) == pytest.approx(ratio.number, abs=1e-4)


def level_before(row_S: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Median before the split with the least absolute deviation of the logarithms."""

    def deviation(values: Cells) -> float:
        return float(np.abs(np.log(values) - np.median(np.log(values))).sum())

    split = min(
        range(3, row_S.size - 2), key=lambda at: deviation(row_S[:at]) + deviation(row_S[at:])
    )
    return float(np.exp(np.median(np.log(row_S[:split]))))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("sizes", "whom"),
    [
        ({"num_ranks": 16, "pp": 2, "tp": 2}, "dp"),
        ({"num_ranks": 8, "pp": 2, "tp": 2}, "stage"),
        ({"num_ranks": 5, "pp": 1, "tp": 1}, "dp"),
    ],
)
def test_with_nobody_accused_slowdowns_are_those_of_the_sql_macro(
    tmp_path: Path, sizes: dict[str, int], whom: str
) -> None:
    with generated(tmp_path, sizes, (3,)) as run:
        tables = tables_of(run, 0, (0, STEPS))
        work = work_of(tables)
        peers = peers_of(work.ranks)
        assert set(peers.whom_R.tolist()) == {whom}
        slow_RS = slowdowns(work, peers, np.ones(len(work.work_RS), np.bool_))
        rows = run.sql("FROM slowdowns(0, 0, 100)").to_pylist()
        assert {row["peers"] for row in rows} == {whom}
        expected_RS = np.full(slow_RS.shape, np.nan)
        for row in rows:
            expected_RS[row["rank"], row["step"]] = row["slowdown"]
        assert np.isfinite(expected_RS).all()
        np.testing.assert_allclose(slow_RS, expected_RS, rtol=1e-9)
