"""Slow links, networks, nodes, hosts and switches on hand-built tables, and on generated runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.analysis.diagnosis import tables_of
from diagnosis.detectors import DETECTORS
from diagnosis.detectors.slow_network import NAME, detect
from diagnosis.findings import Finding, Verdict
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.diagnosis.transfer_tables import Factor, transfer_tables
from trace_hooks.layout import ParallelLayout

PP4_DP4_TP2 = ParallelLayout.from_sizes(pp=4, dp=4, tp=2)
PP8_DP8 = ParallelLayout.from_sizes(pp=8, dp=8)
STEPS, FROM = 30, 10


def since(first: int, x: float, hit: Factor) -> Factor:
    """`x` from a step on for channels for which `hit` is true."""
    return lambda axis, ranks, step: x if step >= first and hit(axis, ranks, step) else 1.0


def judged(layout: ParallelLayout, factor: Factor, seed: int = 1) -> Verdict:
    return detect(transfer_tables(layout, STEPS, factor, seed=seed), attempt=0)


def summary(finding: Finding) -> tuple[str, list[int], list[int], list[str]]:
    ranks = [place.rank for place in finding.culprits]
    return finding.kind, ranks, list(finding.stages), list(finding.hosts)


@pytest.mark.parametrize("first", [0, FROM])
@pytest.mark.parametrize("x", [10.0, 3.0])
def test_one_link(first: int, x: float) -> None:
    verdict = judged(PP4_DP4_TP2, since(first, x, lambda axis, ranks, step: ranks == (9, 17)))
    (finding,) = verdict.findings
    assert summary(finding) == ("slow_link", [9, 17], [], [])
    assert finding.title.startswith("Link of ranks 9 and 17:")
    assert all("ranks 9 and 17" in one.sentence for one in finding.evidence[:2])
    assert abs(finding.first_step - first) <= 1
    assert finding.slowdown == pytest.approx(x, rel=0.1)
    assert finding.confidence == "high"
    assert "comparable ones" in finding.evidence[0].sentence


def test_both_links_of_a_rank_name_the_rank() -> None:
    verdict = judged(PP4_DP4_TP2, since(0, 5, lambda axis, ranks, _: axis == "link" and 9 in ranks))
    assert [summary(finding) for finding in verdict.findings] == [("slow_link", [9], [], [])]


@pytest.mark.parametrize("first", [0, FROM])
@pytest.mark.parametrize("x", [4.0, 1.6])
def test_the_network_of_one_group_of_replicas(first: int, x: float) -> None:
    hit = since(first, x, lambda axis, ranks, step: axis == "dp" and ranks[0] == 17)
    (finding,) = judged(PP4_DP4_TP2, hit).findings
    assert summary(finding) == ("slow_dp_network", [17, 19, 21, 23], [2], [])
    assert abs(finding.first_step - first) <= 1


@pytest.mark.parametrize("first", [0, FROM])
def test_groups_inside_one_node(first: int) -> None:
    hit = since(first, 4, lambda axis, ranks, step: axis == "tp" and ranks[0] // 8 == 2)
    (finding,) = judged(PP4_DP4_TP2, hit).findings
    assert summary(finding) == ("slow_node_link", list(range(16, 24)), [], ["node2"])
    assert any("slow host" in other for other in finding.alternatives)


def test_the_only_node_is_found_by_its_past() -> None:
    layout = ParallelLayout.from_sizes(dp=4, tp=2)
    (finding,) = judged(layout, since(FROM, 4, lambda axis, ranks, step: axis == "tp")).findings
    assert summary(finding) == ("slow_node_link", list(range(8)), [], ["node0"])
    assert (finding.confidence, finding.first_step) == ("medium", FROM)


def touches(hosts: set[int]) -> Factor:
    """Channels between these hosts of eight ranks and others; the norm over all ranks is small."""

    def hit(axis: str, ranks: tuple[int, ...], step: int) -> bool:
        touched = {rank // 8 for rank in ranks}
        return axis != "world" and len(touched) > 1 and bool(touched & hosts)

    return hit


@pytest.mark.parametrize(("x", "confidence"), [(5, "high"), (1.8, "medium")])
@pytest.mark.parametrize("first", [0, FROM])
def test_one_host_that_reaches_others_slowly(first: int, x: float, confidence: str) -> None:
    (finding,) = judged(PP8_DP8, since(first, x, touches({3}))).findings
    assert summary(finding) == ("slow_host", list(range(24, 32)), [], ["node3"])
    assert finding.confidence == confidence


@pytest.mark.parametrize("first", [0, FROM])
def test_hosts_are_named_where_only_some_of_their_slow_channels_cost_much(first: int) -> None:
    layout = ParallelLayout.from_sizes(pp=4, dp=16)
    (finding,) = judged(layout, since(first, 1.7, touches({0, 1, 2}))).findings
    assert summary(finding)[::3] == ("many_hosts_slow", ["node0", "node1", "node2"])


def test_links_between_several_pairs_of_hosts_at_once_are_one_finding_without_names() -> None:
    """Their hosts' groups of replicas have nothing to be compared with: either end may be slow."""
    layout = ParallelLayout.from_sizes(pp=2, dp=32)
    hit = since(0, 5, lambda axis, ranks, _: axis == "link" and ranks[0] // 8 in (0, 1))
    (finding,) = judged(layout, hit).findings
    assert summary(finding) == ("many_hosts_slow", [], [], [])
    assert finding.title == "Network of some of 4 hosts: data moves slowly"
    assert finding.evidence[1].sentence.endswith("all of node0, node1, node4, node5.")


def test_groups_of_replicas_of_several_stages_at_once_are_one_finding_without_names() -> None:
    layout = ParallelLayout.from_sizes(pp=4, dp=16)
    hit = since(FROM, 5, lambda axis, ranks, _: axis == "dp" and ranks[0] in (16, 32))
    (finding,) = judged(layout, hit).findings
    assert summary(finding) == ("many_hosts_slow", [], [], [])
    assert finding.evidence[1].sentence.endswith("all of node2, node3, node4, node5.")


def test_hosts_that_others_would_explain_as_well_are_not_named() -> None:
    layout = ParallelLayout.from_sizes(pp=2, dp=32)
    (finding,) = judged(layout, since(FROM, 5, touches({3, 4, 5}))).findings
    assert summary(finding) == ("many_hosts_slow", [], [], [])
    assert "some of 6 hosts" in finding.title
    (named,) = judged(layout, since(FROM, 5, touches({0, 1}))).findings
    assert summary(named)[::3] == ("many_hosts_slow", ["node0", "node1"])


@pytest.mark.parametrize("first", [0, FROM])
def test_many_hosts_at_once(first: int) -> None:
    (finding,) = judged(PP8_DP8, since(first, 5, touches({3, 4, 5}))).findings
    hosts = ["node3", "node4", "node5"]
    assert summary(finding) == ("many_hosts_slow", list(range(24, 48)), [], hosts)


def test_all_that_leaves_hosts_is_the_network_of_all_hosts() -> None:
    verdict = judged(PP4_DP4_TP2, since(FROM, 5, touches({0, 1, 2, 3})))
    hosts = ["node0", "node1", "node2", "node3"]
    assert [summary(f) for f in verdict.findings] == [
        ("many_hosts_slow", list(range(32)), [], hosts)
    ]


def test_links_between_two_hosts_are_one_finding() -> None:
    hit = since(0, 5, lambda axis, ranks, _: axis == "link" and {r // 8 for r in ranks} == {3, 4})
    (finding,) = judged(PP8_DP8, hit).findings
    assert summary(finding)[:2] == ("slow_link", list(range(24, 40)))


@pytest.mark.parametrize(("x", "confidence"), [(2.2, "high"), (1.8, "medium")])
def test_all_channels_since_a_step_are_a_regression_and_from_the_first_on_nothing(
    x: float, confidence: str
) -> None:
    (finding,) = judged(PP4_DP4_TP2, since(FROM, x, lambda axis, ranks, step: True)).findings
    assert summary(finding) == ("comm_regression", [], [], [])
    assert (finding.first_step, finding.confidence) == (FROM, confidence)
    assert judged(PP4_DP4_TP2, since(0, 2, lambda axis, ranks, step: True)).findings == ()


def test_two_faults_at_different_times() -> None:
    def factor(axis: str, ranks: tuple[int, ...], step: int) -> float:
        if ranks == (9, 17) and 4 <= step < 14:
            return 8.0
        return 4.0 if axis == "dp" and ranks[0] == 24 and step >= 15 else 1.0

    findings = judged(PP4_DP4_TP2, factor).findings
    assert sorted(summary(finding)[0] for finding in findings) == ["slow_dp_network", "slow_link"]
    assert {finding.ongoing for finding in findings} == {True, False}


@pytest.mark.parametrize("layout", [PP4_DP4_TP2, PP8_DP8, ParallelLayout.from_sizes(dp=4, tp=2)])
@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_network(layout: ParallelLayout, seed: int) -> None:
    tables = transfer_tables(layout, STEPS, lambda axis, ranks, step: 1.0, seed=seed, noise=0.3)
    verdict = detect(tables, attempt=0)
    assert verdict.findings == ()
    assert (verdict.checked or "").startswith("No group or link of ")


def test_a_slow_transfer_that_costs_nothing_is_no_finding() -> None:
    hit = since(0, 5, lambda axis, ranks, step: axis == "world")
    assert judged(PP4_DP4_TP2, hit).findings == ()


def test_without_transfers_nothing_is_judged() -> None:
    tables = transfer_tables(PP4_DP4_TP2, STEPS, lambda axis, ranks, step: float("nan"))
    verdict = detect(tables, attempt=0)
    assert "No transfers are known" in verdict.not_enough[0].missing


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("fault", "kind", "ranks"),
    [
        ("slow_link=5,x=20,from=10", "slow_link", [5, 13]),
        ("slow_dp_network=9,x=6,from=10", "slow_dp_network", [9, 11, 13, 15]),
        ("slow_node_link=2,x=5,from=10", "slow_node_link", list(range(16, 24))),
        ("comm_regression,x=3,from=10", "comm_regression", []),
        ("slow_worker=5,x=1.5,from=10", None, []),
        ("launch_skew,ms=20,from=10", None, []),
    ],
)
def test_generated_runs(tmp_path: Path, fault: str, kind: str | None, ranks: list[int]) -> None:
    job = SyntheticJob(32, pp=4, tp=2, num_steps=24, faults=(SyntheticFault.parse(fault),))
    generate(job, tmp_path / "run")
    own = [detector for detector in DETECTORS if detector.name == NAME]
    with open_run(tmp_path / "run") as run:
        tables = tables_of(run, 0, (0, 100), chosen=own)
        findings = detect(tables, 0).findings
        assert [summary(finding)[:2] for finding in findings] == ([(kind, ranks)] if kind else [])
        for finding in findings:
            assert abs(finding.first_step - 10) <= 1
            evidence = finding.evidence[0]
            answer = run.ask(evidence.question, **dict(evidence.params)).to_pylist()
            times = [
                row["transfer_ms"] / row["num_instances"] for row in answer if row["transfer_ms"]
            ]
            assert min(times) <= evidence.number <= max(times)
