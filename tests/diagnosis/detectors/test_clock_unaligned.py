"""Clocks of hosts that are off, jump or drift, on hand-built tables and generated runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from app.analysis.diagnosis import tables_of
from diagnosis.detectors import DETECTORS
from diagnosis.detectors.clock_unaligned import NAME, detect
from diagnosis.findings import Verdict
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.diagnosis.answer_schema import answer_schema
from tests.diagnosis.work_tables import tables as work_tables
from trace_hooks.layout import ParallelLayout

BLOCKS, STEPS = 12, 5
Off = Callable[[int, int], float]
"""(host, block) -> ms by which its clock is ahead"""


def judged(
    off_ms: Off,
    num_hosts: int = 5,
    known: bool = True,
    err_us: float = 50.0,
    noise: float = 0.02,
    transfer_ms: float = 0.3,
    method: str | None = None,
) -> Verdict | None:
    random = np.random.default_rng(1)
    rows = []
    for block in range(BLOCKS):
        seen = [off_ms(host, block) + random.normal(0, noise) for host in range(num_hosts)]
        rows += [
            {
                "block": block,
                "first_step": STEPS * block,
                "last_step": STEPS * block + STEPS - 1,
                "group_id": 1,
                "host": f"node{host}",
                "late_ms": late - min(seen),
                "num_ends": 40,
                "transfer_ms": transfer_ms if known else None,
                "is_aligned": known,
            }
            for host, late in enumerate(seen)
        ]
    layout = ParallelLayout.from_sizes(dp=8 * num_hosts)
    clocks = [
        {"rank": rank, "host": f"node{rank // 8}", "err_us": err_us if known else None,
         "method": method}
        for rank in range(8 * num_hosts)
    ]  # fmt: skip
    return detect(
        {
            "end_lateness": pa.Table.from_pylist(rows, _ENDS),
            "clock_error": pa.Table.from_pylist(clocks, _CLOCKS),
            "rank_places": work_tables(layout, 1, lambda rank, step: 1.0)["rank_places"],
        },
        attempt=0,
    )


_ENDS = answer_schema(
    "block BIGINT, first_step BIGINT, last_step BIGINT, group_id BIGINT, host VARCHAR, "
    "late_ms DOUBLE, num_ends BIGINT, transfer_ms DOUBLE, is_aligned BOOLEAN"
)
_CLOCKS = answer_schema("rank INTEGER, host VARCHAR, err_us DOUBLE, method VARCHAR")


@pytest.mark.parametrize(
    ("off_ms", "first", "how"),
    [
        (lambda host, block: 20.0 * (host == 2), 0, "a constant 20.0 ms"),
        (lambda host, block: 20.0 * (host == 2 and block >= 4), 20, "a jump"),
        (lambda host, block: 2.0 * block * (host == 2), 5, "a drift"),
    ],
    ids=["constant", "jump", "drift"],
)
def test_one_host(off_ms: Off, first: int, how: str) -> None:
    verdict = judged(off_ms)
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.kind, finding.hosts) == ("clock_unaligned", ("node2",))
    assert [place.rank for place in finding.culprits] == list(range(16, 24))
    assert finding.first_step == first
    assert how in finding.text
    assert finding.cost is None
    most_ms = -22.0 if how == "a drift" else -20.0
    assert finding.evidence[0].number == pytest.approx(most_ms, abs=0.5)


@pytest.mark.parametrize("num_hosts", [2, 6])
def test_where_all_differ_nobody_is_named(num_hosts: int) -> None:
    verdict = judged(lambda host, block: 37.0 * host, num_hosts, known=False)
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.culprits, finding.hosts) == ((), ())
    assert "since step 0, and the clocks are not aligned: times of" in finding.text


@pytest.mark.parametrize("known", [True, False])
def test_clocks_that_are_kept_together(known: bool) -> None:
    verdict = judged(lambda host, block: 0.2 * host, known=known)
    assert verdict is not None
    assert verdict.findings == ()
    assert verdict.checked is not None


def test_the_order_of_long_transfers_is_no_clock() -> None:
    verdict = judged(lambda host, block: 8.0 * (host == 2), transfer_ms=30.0)
    assert verdict is not None
    assert verdict.findings == ()


def test_containers_of_one_machine_read_one_clock() -> None:
    def late(host: int, _block: int) -> float:
        return 20.0 * (host == 2)

    of_several, verdict = judged(late, method="store_ping_pong"), judged(late, method="same_host")
    assert of_several is not None
    assert verdict is not None
    assert of_several.findings
    assert (verdict.findings, verdict.checked) == ((), "All hosts read the same clock.")


def test_one_host_alone_has_one_clock() -> None:
    assert judged(lambda host, block: 0.0, num_hosts=1) is None


@pytest.mark.parametrize(("fault", "found"), [(("clock_unaligned",), 1), ((), 0)])
def test_generated_runs(tmp_path: Path, fault: tuple[str, ...], found: int) -> None:
    planted = tuple(map(SyntheticFault.parse, fault))
    generate(SyntheticJob(32, pp=2, tp=2, num_steps=12, faults=planted), tmp_path / "run")
    own = [detector for detector in DETECTORS if detector.name == NAME]
    with open_run(tmp_path / "run") as run:
        verdict = detect(tables_of(run, 0, (0, 100), chosen=own), 0)
    assert verdict is not None
    assert len(verdict.findings) == found
