"""Attention statistics of the real job, TP 2 x PP 2, against the same job in one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.store import open_run

pytestmark = [pytest.mark.torch, pytest.mark.inspection]

TINY = ("--batch", "2", "--seq", "16", "--width", "32", "--heads", "4")
SIZES = {"num_steps": 3, "num_microbatches": 2, "num_layers": 4}
ON = {"TRACE_HOOKS_STATISTICS": "2"}


def heads(job: Any) -> dict[tuple[int, int, int], dict[str, Any]]:
    with open_run(job.folder) as run:
        rows = run.ask("attention_health").to_pylist()
        assert run.sql("SELECT * FROM marks WHERE kind = 'hook_error'").num_rows == 0
    return {(row["step"], row["layer"], row["head"]): row for row in rows}


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_heads_of_all_ranks_and_stages_are_those_of_one_process(
    train_3d: Callable[..., Any], tmp_path: Path, sequence_parallel: bool
) -> None:
    alone = train_3d(tmp_path, "alone", pp=1, dp=1, tp=1, **SIZES, options=TINY, environ=ON)
    expected = heads(alone)
    assert set(expected) == {(s, n, h) for s in (0, 2) for n in range(4) for h in range(4)}
    options = (*TINY, "--sequence-parallel") if sequence_parallel else TINY
    job = train_3d(tmp_path, "tp", pp=2, dp=1, tp=2, **SIZES, options=options, environ=ON)
    found = heads(job)
    assert set(found) == set(expected)
    for key, row in found.items():
        if key[0] == 0:  # AdamW's first update is the sign of a gradient
            assert row["max_logit"] == pytest.approx(expected[key]["max_logit"], rel=1e-4)
            assert row["entropy"] == pytest.approx(expected[key]["entropy"], rel=1e-4)
            assert row["rows"] == expected[key]["rows"]


def test_losses_are_bitwise_equal_with_statistics_on_and_off(
    train_3d: Callable[..., Any], tmp_path: Path
) -> None:
    told = [
        train_3d(tmp_path, name, pp=2, dp=1, tp=2, **SIZES, options=TINY, environ=environ).losses
        for name, environ in (("on", ON), ("off", {}))
    ]
    assert told[0] == told[1]
