"""What a self-test measured, and what ordinary steps achieved between hosts: rows in, table out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder
from tests.selftest_runs import selftest_run

MB = 1_000_000


def test_both_ends_of_a_pair_are_one_row(tmp_path: Path) -> None:
    run = selftest_run(tmp_path / "run", num_hosts=2, per_host=2)
    with open_run(run.folder) as opened:
        rows = opened.ask("selftests").to_pylist()
    large = [row for row in rows if row["test"] == "pair" and row["num_bytes"] == 1 << 28]
    assert [(row["rank"], row["peer"]) for row in large] == [(0, 2), (1, 3)]
    assert [(row["host"], row["peer_host"]) for row in large] == [("node0000", "node0001")] * 2
    assert [(row["local_rank"], row["peer_local_rank"]) for row in large] == [(0, 0), (1, 1)]
    alone = [row for row in rows if row["test"] == "matmul"]
    assert [(row["rank"], row["peer"], row["peer_host"]) for row in alone] == [
        (rank, -1, None) for rank in range(4)
    ]
    whole = [row for row in rows if row["test"] == "all_reduce"]
    assert {(row["rank"], row["members"]) for row in whole} == {(0, "0-3")}


def test_the_faster_end_counts_and_a_failed_one_leaves_nothing(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, source="selftest")
    run.rank_files()
    shared = {"test": "mesh recheck", "host": "h0", "peer_host": "h0", "members": "0,1"}
    shared |= {"device": "cpu", "num_bytes": 64, "samples": 9, "unit": "GB/s", "ts_ns": T0}
    for rank, (first, again) in enumerate([(0.5, "broken"), (0.4, None)]):
        own = shared | {"peer": 1 - rank}
        times = {"seconds_min": first, "seconds_median": first + 0.1, "value": 1 / first}
        run.add("selftests", rank, -1, round=0, **own, **times)
        run.add("selftests", rank, -1, round=1, **own, **times, problem=again)
    run.publish()
    with open_run(run.folder) as opened:
        first, second = opened.ask("selftests").to_pylist()
    assert (first["test"], first["is_recheck"]) == ("mesh", True)
    assert (first["seconds_min"], first["seconds_median"], first["value"]) == (0.4, 0.5, 2.5)
    assert (second["seconds_min"], second["value"], second["problem"]) == (None, None, "broken")


@pytest.fixture
def traffic(tmp_path: Path) -> RunBuilder:
    """Hosts a (ranks 0, 1), b (2, 3) and c (4): per step an all-reduce in a, one of ranks 1, 2 and
    4, and a message from 0 to 3.
    """
    run = RunBuilder(tmp_path / "run", 5, hosts=["a", "a", "b", "b", "c"])
    run.group(1, [0, 1], "tp")
    run.group(2, [1, 2, 4], "dp")
    for rank in range(5):
        run.add("clocks", rank, -1, ts_ns=T0)
        for step in range(3):
            run.step(rank, step, step * 1000.0, step * 1000.0 + 1000)
    for step in range(3):
        t = step * 1000.0
        for rank in (0, 1):  # 4 MB x 2 (2 - 1) / 2 in 100 us
            run.collective(rank, step, 1, step, t, t + 100, num_bytes=4 * MB)
        for rank in (1, 2, 4):  # 3 MB x 2 (3 - 1) / 3 in 200 us
            run.collective(rank, step, 2, step, t + 200, t + 400, num_bytes=3 * MB)
        for rank, op, peer in ((0, "send", 3), (3, "recv", 0)):  # 1 MB in 125 us
            seq = (1 << 40) + step
            run.collective(
                rank, step, 9, seq, t + 500, t + 625, op=op, peer=peer, tag=0, num_bytes=MB
            )
    run.rank_files()
    run.publish()
    return run


def test_bandwidth_between_hosts(traffic: RunBuilder) -> None:
    with open_run(traffic.folder) as opened:
        rows = opened.ask("pair_bandwidth").to_pylist()
        few = opened.ask("pair_bandwidth", max_hosts=2).to_pylist()
        none = opened.ask("pair_bandwidth", step_min=7).to_pylist()
    found = {(row["host"], row["peer_host"]): row for row in rows}
    assert set(found) == {("a", "a"), ("a", "b"), ("a", "c"), ("b", "c")}
    assert found["a", "a"]["bandwidth_gb_s"] == pytest.approx(40.0)
    assert found["b", "c"]["bandwidth_gb_s"] == pytest.approx(20.0)
    both = found["a", "b"]
    assert (both["bandwidth_gb_s"], both["source"]) == (pytest.approx(20.0), "dp")
    assert (both["lowest_gb_s"], both["num_channels"]) == (pytest.approx(8.0), 2)
    assert both["num_bytes"] == 3 * 4 * MB + 3 * MB
    assert {(row["host"], row["peer_host"]): row["source"] for row in few} == {
        ("a", "a"): "tp",
        ("a", "b"): "messages",
    }
    assert none == []


def test_ordinary_runs_have_no_self_test(traffic: RunBuilder) -> None:
    with open_run(traffic.folder) as opened:
        assert opened.ask("selftests").num_rows == 0
