"""Run folders of self-tests built by hand: hosts, their ranks, and what is slow."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.diagnosis.answer_schema import answer_schema
from tests.runs_builder import T0, RunBuilder
from trace_hooks.selftest.plan import PAIR_TESTS, RECHECK, Sizes, Unit, members_text, plan
from trace_hooks.selftest.suspects import rechecks

Slowness = Callable[[str, tuple[int, ...]], float]
"""Times as long as usual, of a test and the ranks that take part."""

ANSWER = answer_schema(
    "test VARCHAR, is_recheck BOOLEAN, num_bytes BIGINT, rank INTEGER, peer INTEGER, "
    "members VARCHAR, host VARCHAR, peer_host VARCHAR, device VARCHAR, local_rank BIGINT, "
    "peer_local_rank BIGINT, seconds_min DOUBLE, seconds_median DOUBLE, value DOUBLE, "
    "unit VARCHAR, samples INTEGER, problem VARCHAR"
)
"""Columns of the saved query selftests."""

SECONDS = {"matmul": 0.002, "memory": 0.001, "h2d": 0.005, "d2h": 0.005}


def even(_test: str, _ranks: tuple[int, ...]) -> float:
    """Everything is as fast as usual."""
    return 1.0


def selftest_rows(
    hosts: Sequence[str], slowness: Slowness = even, noise: float = 0.02, seed: int = 0
) -> list[dict[str, Any]]:
    """Rows of selftests of all ranks, in the order of the plan; `noise`: of logarithms."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []

    def measure(units: Sequence[Unit]) -> None:
        for unit in units:
            number = 1 + max((row["round"] for row in rows[-1:]), default=-1)
            for group in unit.groups:
                luck = draw.lognormvariate(0.0, noise)
                rows.extend(_rows(hosts, unit, group, number, slowness, luck))

    measure(plan(hosts, "cuda", Sizes.of("cuda")))
    measure(rechecks(rows))
    return rows


def _rows(
    hosts: Sequence[str],
    unit: Unit,
    group: tuple[int, ...],
    number: int,
    slowness: Slowness,
    luck: float,
) -> list[dict[str, Any]]:
    test = unit.test.removesuffix(RECHECK)
    bytes_s = 300e9 if test == "mesh" else 40e9
    usual = SECONDS.get(test, 20e-6 + unit.num_bytes / bytes_s)
    seconds = usual * slowness(test, group) * luck
    is_pair = test in PAIR_TESTS
    rows = []
    for rank in group:
        peer = next(other for other in group if other != rank) if is_pair else -1
        rows.append(
            {
                "rank": rank,
                "ts_ns": T0 + number * 10**8,
                "test": unit.test,
                "host": hosts[rank],
                "peer_host": hosts[peer] if is_pair else "",
                "peer": peer,
                "members": members_text(group),
                "device": "NVIDIA H100 80GB HBM3",
                "num_bytes": unit.num_bytes,
                "round": number,
                "samples": 20,
                "seconds_min": seconds,
                "seconds_median": 1.05 * seconds,
                "value": unit.num_bytes / (1.05 * seconds) / 1e9,
                "unit": "TFLOP/s" if test == "matmul" else "GB/s",
                "problem": None,
            }
        )
    return rows


def selftest_answer(
    num_hosts: int = 4,
    per_host: int = 2,
    slowness: Slowness = even,
    noise: float = 0.02,
    seed: int = 0,
) -> pa.Table:
    """What the saved query selftests answers for `selftest_run`, without files."""
    hosts = host_names(num_hosts, per_host)
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for row in selftest_rows(hosts, slowness, noise, seed):
        key = row["round"], row["members"]
        if key in found:  # the other ranks of a group measured the same
            continue
        is_pair = row["peer"] >= 0
        found[key] = {name: row[name] for name in ANSWER.names if name in row} | {
            "test": row["test"].removesuffix(RECHECK),
            "is_recheck": row["test"].endswith(RECHECK),
            "peer_host": row["peer_host"] if is_pair else None,
            "local_rank": row["rank"] % per_host,
            "peer_local_rank": row["peer"] % per_host if is_pair else None,
        }
    return pa.Table.from_pylist(list(found.values()), ANSWER)


def host_names(num_hosts: int, per_host: int) -> list[str]:
    """Of each rank."""
    return [f"node{rank // per_host:04d}" for rank in range(num_hosts * per_host)]


def selftest_run(
    folder: Path,
    num_hosts: int = 4,
    per_host: int = 2,
    slowness: Slowness = even,
    noise: float = 0.02,
    seed: int = 0,
) -> RunBuilder:
    """A finished self-test, published."""
    hosts = host_names(num_hosts, per_host)
    run = RunBuilder(folder, len(hosts), source="selftest", hosts=hosts)
    run.rank_files(end={"ts_ns": T0 + 10**10, "status": "finished", "error": None})
    for row in selftest_rows(hosts, slowness, noise, seed):
        run.add("selftests", row.pop("rank"), -1, **row)
    run.publish()
    return run
