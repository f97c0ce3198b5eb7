"""Self-tests: host, device, or link is named; noise names nobody; an earlier one is compared."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from app.analysis.diagnosis import against_baseline, diagnose_run
from app.analysis.selftest import selftest_diagnosis
from diagnosis.detectors.selftest import QUESTIONS, detect
from diagnosis.detectors.selftest.past import compare
from diagnosis.findings import Finding, Verdict
from ingest.run import open_run
from tests.selftest_runs import Slowness, even, selftest_answer, selftest_run

PER_HOST = 2


def table(
    slowness: Slowness = even,
    num_hosts: int = 4,
    per_host: int = PER_HOST,
    noise: float = 0.02,
    seed: int = 0,
) -> pa.Table:
    """The saved query's answer for a self-test built by hand."""
    return selftest_answer(num_hosts, per_host, slowness, noise, seed)


def judged(answer: pa.Table) -> Verdict:
    verdict = detect({QUESTIONS[0]: answer}, 0)
    assert verdict is not None
    return verdict


def named(findings: tuple[Finding, ...]) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    return [(f.kind, f.hosts, tuple(place.rank for place in f.culprits)) for f in findings]


def hosts_of(ranks: tuple[int, ...]) -> set[int]:
    return {rank // PER_HOST for rank in ranks}


@pytest.mark.parametrize("times", [8.0, 2.0, 1.4])
def test_all_pairs_of_a_host(times: float) -> None:
    answer = table(lambda t, r: times if t == "pair" and 2 in hosts_of(r) else 1.0)
    verdict = judged(answer)
    assert named(verdict.findings) == [("selftest_host", ("node0002",), (4, 5))]
    assert verdict.findings[0].slowdown == pytest.approx(times, rel=0.15)
    assert verdict.checked is None


@pytest.mark.parametrize("times", [8.0, 2.0, 1.4])
def test_one_pair_of_ranks_of_one_host(times: float) -> None:
    answer = table(lambda t, r: times if t == "mesh" and r == (2, 5) else 1.0, 1, per_host=8)
    (finding,) = judged(answer).findings
    assert named((finding,)) == [("selftest_link", (), (2, 5))]
    assert finding.title.startswith("The link between rank 2 on node0000 and rank 5 on node0000")
    assert len(finding.evidence) == (2 if times > 4 else 1)  # small messages differ more
    values = {row["value"] for row in answer.to_pylist() if row["members"] == "2,5"}
    assert {evidence.number for evidence in finding.evidence} <= values
    assert finding.evidence[0].sentence.endswith("slow again with all others idle.")


def test_all_links_of_two_hosts() -> None:
    answer = table(lambda t, r: 2.0 if t == "pair" and hosts_of(r) == {1, 3} else 1.0, 6)
    assert named(judged(answer).findings) == [
        ("selftest_link", ("node0001", "node0003"), (2, 3, 6, 7))
    ]


def test_the_network_card_of_one_rank() -> None:
    answer = table(lambda t, r: 2.0 if t == "pair" and 5 in r else 1.0, 6)
    assert named(judged(answer).findings) == [("selftest_device", (), (5,))]


@pytest.mark.parametrize("times", [4.0, 1.4, 1.2])
def test_a_device(times: float) -> None:
    def slow(test: str, ranks: tuple[int, ...]) -> float:
        return times if test == "matmul" and ranks == (6,) else 1.0

    answer = table(slow, noise=0.008)
    (finding,) = judged(answer).findings
    assert named((finding,)) == [("selftest_device", (), (6,))]
    assert finding.title == "Rank 6 on node0003 is slow in the self-test"
    assert finding.severity == ("urgent" if times >= 2 else "warning")


def test_four_devices_of_different_hosts_are_four_findings(tmp_path: Path) -> None:
    """Without steps no rank is known to be one of those that have a host in common."""
    bad = ((3,), (9,), (14,), (21,))
    run = selftest_run(
        tmp_path / "run", 16, PER_HOST, lambda t, r: 1.6 if t == "matmul" and r in bad else 1.0
    )
    with open_run(run.folder) as opened:
        found = named(diagnose_run(opened).findings)
    assert sorted(ranks for _, _, ranks in found) == list(bad)


def test_two_culprits_of_different_kinds() -> None:
    def slow(test: str, ranks: tuple[int, ...]) -> float:
        if test == "matmul" and ranks == (0,):
            return 1.5
        return 3.0 if test == "pair" and 7 in hosts_of(ranks) else 1.0

    found = named(judged(table(slow, num_hosts=8)).findings)
    assert set(found) == {
        ("selftest_device", (), (0,)),
        ("selftest_host", ("node0007",), (14, 15)),
    }


def test_all_devices_of_a_host_are_the_host() -> None:
    answer = table(lambda t, r: 1.5 if t == "memory" and hosts_of(r) == {3} else 1.0)
    assert named(judged(answer).findings) == [("selftest_host", ("node0003",), (6, 7))]


@pytest.mark.sampled
@pytest.mark.parametrize("noise", [0.005, 0.05, 0.3])
@pytest.mark.parametrize("shape", [(4, 2), (1, 8), (16, 4)])
def test_healthy_noise_names_nobody(noise: float, shape: tuple[int, int]) -> None:
    for seed in range(20):
        verdict = judged(table(even, *shape, noise=noise, seed=seed))
        assert verdict.findings == (), (seed, verdict.findings)
        assert verdict.checked is not None


def test_pairs_with_another_link_inside_every_host_are_usual() -> None:
    def across(test: str, ranks: tuple[int, ...]) -> float:
        far = test == "mesh" and (ranks[0] % 4 < 2) != (ranks[1] % 4 < 2)
        fault = 1.6 if test == "mesh" and ranks == (9, 10) else 1.0
        return fault * (3.0 if far else 1.0)

    verdict = judged(table(across, num_hosts=8, per_host=4))
    assert named(verdict.findings) == [("selftest_link", (), (9, 10))]


def test_many_single_pairs_name_nobody() -> None:
    slow = {(0, 1), (2, 3), (4, 5), (6, 7), (1, 2)}
    answer = table(
        lambda t, r: 9.0 if t == "mesh" and r in slow else 1.0, 1, per_host=8, noise=1e-3
    )
    verdict = judged(answer)
    assert verdict.findings == ()
    assert any("too many to name" in sentence for sentence in verdict.set_aside)


def test_what_was_slow_once_and_not_measured_again_is_set_aside() -> None:
    answer = table(lambda t, r: 3.0 if t == "matmul" and r == (6,) else 1.0)
    verdict = judged(pa.Table.from_pylist(
        [row for row in answer.to_pylist() if not row["is_recheck"]], answer.schema
    ))  # fmt: skip
    assert verdict.findings == ()
    assert verdict.set_aside[0].startswith("Rank 6 on node0003 took 3 times as long")


def test_what_is_fast_again_is_not_named() -> None:
    answer = table(lambda t, r: 3.0 if t == "matmul" and r == (6,) else 1.0)
    rows = [
        {**row, "seconds_min": row["seconds_min"] / 3, "seconds_median": row["seconds_median"] / 3}
        if row["is_recheck"] and row["rank"] == 6
        else row
        for row in answer.to_pylist()
    ]
    verdict = judged(pa.Table.from_pylist(rows, answer.schema))
    assert (verdict.findings, verdict.set_aside) == ((), ())


def test_a_transfer_that_failed() -> None:
    answer = table()
    rows = [
        {**row, "seconds_min": None, "seconds_median": None, "value": None, "problem": "timed out"}
        if row["test"] == "pair" and row["members"] == "1,3"
        else row
        for row in answer.to_pylist()
    ]
    verdict = judged(pa.Table.from_pylist(rows, answer.schema))
    assert named(verdict.findings) == [("selftest_link", (), (1, 3))]
    assert "timed out" in verdict.findings[0].text


def test_too_little_and_nothing() -> None:
    answer = table(num_hosts=1, per_host=1)
    assert judged(answer).not_enough
    assert detect({QUESTIONS[0]: answer.slice(0, 0)}, 0) is None


def test_against_the_past_of_the_same_machines() -> None:
    good = table(seed=1)
    same = compare(table(seed=2), good, 0)
    assert same.findings == ()
    assert same.checked is not None
    worse = table(lambda t, r: 1.5 if t == "memory" and r == (3,) else 1.0, seed=3)
    (finding,) = compare(worse, good, 0).findings
    assert named((finding,)) == [("selftest_device", (), (3,))]
    assert "in the baseline" in finding.text


def test_all_machines_slower_than_in_the_past() -> None:
    good = table(seed=1)
    slower = table(lambda t, r: 1.4 if t == "pair" else 1.0, seed=2)
    assert judged(slower).findings == ()
    (finding,) = compare(slower, good, 0).findings
    assert (finding.kind, finding.culprits) == ("selftest_fleet", ())
    assert finding.slowdown == pytest.approx(1.4, rel=0.05)


def test_one_machine_against_its_own_past() -> None:
    good = table(num_hosts=1, per_host=1, seed=1)
    worse = table(lambda t, r: 1.6 if t == "h2d" else 1.0, 1, 1, seed=2)
    assert [f.kind for f in compare(worse, good, 0).findings] == ["selftest_device"]
    other = table(num_hosts=2, per_host=1).slice(0, 0)
    assert compare(worse, other, 0).not_enough


def test_the_answer_built_by_hand_is_the_saved_query_s(tmp_path: Path) -> None:
    with open_run(selftest_run(tmp_path / "run", 3, 2, noise=0.1).folder) as run:
        asked = run.ask("selftests")
    built = selftest_answer(3, 2, noise=0.1)
    assert asked.column_names == built.column_names

    def rows(answer: pa.Table) -> list[str]:
        return sorted(map(str, answer.to_pylist()))

    assert rows(asked) == rows(built)


def test_diagnose_reads_it_as_any_run(tmp_path: Path) -> None:
    def slow(test: str, ranks: tuple[int, ...]) -> float:
        return 3.0 if test == "pair" and 2 in hosts_of(ranks) else 1.0

    good = selftest_run(tmp_path / "good", seed=1).folder
    with open_run(selftest_run(tmp_path / "run", slowness=slow).folder) as run:
        diagnosis = diagnose_run(run)
        assert named(diagnosis.findings) == [("selftest_host", ("node0002",), (4, 5))]
        assert named(selftest_diagnosis(run, 0).findings) == named(diagnosis.findings)
        with open_run(good) as baseline:
            assert [f.kind for f in against_baseline(run, 0, baseline).findings] == [
                "selftest_host"
            ]
