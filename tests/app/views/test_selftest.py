"""What the page Selftest shows: tests, devices, matrices by rank and host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.views.selftest import matrix_of, selftest_of, table_lines
from ingest.errors import UserError
from ingest.run import Run, open_run
from tests.runs_builder import T0, RunBuilder, two_rank_run
from tests.selftest_runs import selftest_run

MIB = 1 << 20


def slow(test: str, ranks: tuple[int, ...]) -> float:
    if test == "matmul" and ranks == (5,):
        return 2.0
    return 3.0 if test == "pair" and {rank // 2 for rank in ranks} == {0, 2} else 1.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Three hosts of two ranks; rank 5 computes slowly, node0000 and node0002 talk slowly."""
    built = selftest_run(tmp_path_factory.mktemp("views") / "run", 3, 2, slow, noise=1e-6)
    built.add("marks", 0, -1, ts_ns=T0, kind="note", text="1 of halves was left out.")
    built.publish()
    with open_run(built.folder) as opened:
        yield opened


def test_tests_and_devices(run: Run) -> None:
    found = selftest_of(run, None)
    tests = {(one["test"], one["num_bytes"]): one for one in found.tests}
    large = tests["pair", 256 * MIB]
    assert (large["number"], large["is_of_pairs"]) == (6, True)
    assert large["least"] == pytest.approx(large["median"] / 3, rel=1e-3)
    assert large["slowest"] in {
        f"rank {rank} (node0000) and rank {rank + 4} (node0002)" for rank in (0, 1)
    }
    assert [one["test"] for one in found.tests][:4] == ["matmul", "memory", "h2d", "d2h"]
    assert [row["rank"] for row in found.devices] == list(range(6))
    assert found.devices[5]["values"]["matmul"]["ratio"] == pytest.approx(0.5, rel=1e-3)
    assert found.notes == ("1 of halves was left out.",)
    assert not found.has_traffic
    assert {group["members"] for group in found.groups} >= {"0-5", "0-2", "3-5"}
    lines = table_lines(found)
    assert len(lines) == 1 + len(found.tests)
    assert lines[1].split()[:4] == ["matmul", "256", "MiB", "6"]
    assert not any("e+" in line for line in lines)


def test_the_matrix_by_rank(run: Run) -> None:
    matrix = matrix_of(run, None, "pair", 256 * MIB, "rank")
    assert matrix.names == tuple(map(str, range(6)))
    assert np.array_equal(matrix.value_NN, matrix.value_NN.T, equal_nan=True)
    assert np.isnan(matrix.value_NN[0, 1])  # of one host
    assert matrix.usual is not None
    assert matrix.value_NN[1, 5] == pytest.approx(matrix.usual / 3, rel=1e-3)
    assert matrix.texts["1,5"].startswith("node0000 to node0002: ")


def test_the_matrix_by_host(run: Run) -> None:
    matrix = matrix_of(run, None, "pair", 256 * MIB, "host")
    assert matrix.names == ("node0000", "node0001", "node0002")
    assert matrix.value_NN[0, 2] == pytest.approx(matrix.value_NN[0, 1] / 3, rel=1e-3)
    assert matrix.texts["0,2"] == "median of 2 pairs of ranks"
    inside = matrix_of(run, None, "mesh", 256 * MIB, "host")
    assert np.isfinite(np.diag(inside.value_NN)).all()


def test_what_is_not_there(run: Run) -> None:
    assert matrix_of(run, None, "pair", 7).names == ()
    with pytest.raises(UserError, match="'halves'"):
        matrix_of(run, None, "halves", 7)
    with pytest.raises(UserError, match="'socket'"):
        matrix_of(run, None, "pair", 7, "socket")


def test_ordinary_steps(tmp_path: Path) -> None:
    built = RunBuilder(tmp_path / "run", 2, hosts=["n10", "n9"])
    built.group(7, [0, 1], "dp")
    for rank in range(2):
        built.add("clocks", rank, -1, ts_ns=T0)
        built.step(rank, 0, 0, 1000)
        built.collective(rank, 0, 7, 0, 100, 200, num_bytes=1_000_000)
    built.rank_files()
    built.publish()
    with open_run(built.folder) as opened:
        assert selftest_of(opened, None).has_traffic
        matrix = matrix_of(opened, None, "traffic", 0)
    assert matrix.names == ("n9", "n10")
    assert matrix.value_NN[0, 1] == pytest.approx(10.0)
    assert matrix.texts["0,1"].startswith("by dp; 1 group or pair of ranks, ")


def test_a_run_without_any_of_it(tmp_path: Path) -> None:
    with open_run(two_rank_run(tmp_path / "run").folder) as opened:
        found = selftest_of(opened, None)
    assert (found.tests, found.devices, found.groups, found.notes) == ((), (), (), ())
