"""The real job with experts: what is recorded of it, the same numbers however it is spread."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ingest.run import open_run
from sample_traces.jobs.train_moe import parse_options
from tests.forks import fork, succeeded

pytestmark = pytest.mark.torch

STEPS, MICROBATCHES, TOKENS = 4, 2, 2 * 16
TINY = (
    *("--steps", str(STEPS), "--microbatches", str(MICROBATCHES), "--batch", "2", "--seq", "16"),
    *("--width", "16", "--heads", "2", "--layers", "2", "--experts", "4", "--device", "cpu"),
)

Run = Callable[..., tuple[Path, list[dict[str, float]]]]


@pytest.fixture(scope="module")
def train_moe(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the job on pp x dp x ep ranks, once for each way; (its run, its losses)."""

    @cache
    def run(pp: int, dp: int, ep: int, *options: str, **environ: str) -> Any:
        runs = tmp_path_factory.mktemp("moe")
        sizes = {"nproc": pp * dp * ep, "pp": pp, "dp": dp, "ep": ep}
        command = ["-m", "sample_traces.jobs.train_moe", *TINY, *options]
        for name, value in (sizes | {"runs": runs, "losses": runs / "losses"}).items():
            command += [f"--{name}", str(value)]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TRACE_HOOKS")}
        clean |= {"TRACE_HOOKS_RUN": "job", "OMP_NUM_THREADS": "1"} | environ
        succeeded([fork(runs / "job", command, clean)])
        lines = (runs / "losses").read_text(encoding="utf-8").splitlines()
        return runs / "job", [json.loads(line) for line in lines]

    return run


def losses(run: tuple[Path, list[dict[str, float]]]) -> list[float]:
    return [row["loss"] for row in run[1]]


@pytest.mark.long
def test_losses_are_bitwise_equal_with_hooks_on_and_off(train_moe: Run) -> None:
    on, off = train_moe(2, 1, 2), train_moe(2, 1, 2, TRACE_HOOKS="0")
    assert not off[0].exists()
    assert on[1] == off[1]
    assert losses(on)[-1] != losses(on)[0]
    with open_run(on[0]) as run:
        assert run.sql("SELECT * FROM marks WHERE kind = 'hook_error'").num_rows == 0


def test_every_rank_has_the_load_of_its_layer_in_every_step(train_moe: Run) -> None:
    with open_run(train_moe(2, 1, 2)[0]) as run:
        rows = run.sql("SELECT * FROM expert_load ORDER BY rank, step").to_pylist()
    assert [(row["rank"], row["step"]) for row in rows] == [
        (rank, step) for rank in range(4) for step in range(STEPS)
    ]
    for row in rows:
        stage, ep = divmod(row["rank"], 2)
        assert (row["layer"], row["chunk"]) == (stage, stage)
        assert (row["first_expert"], row["local_experts"]) == (2 * ep, 2)
        assert row["batch_tokens"] == MICROBATCHES * TOKENS
        assert sum(row["tokens"]) == 2 * row["batch_tokens"]
        assert (row["top_k"], row["dropped"], len(row["bias"])) == (2, 0, 4)


def test_tokens_travel_in_all_to_alls_of_the_axis_ep(train_moe: Run) -> None:
    with open_run(train_moe(2, 1, 2)[0]) as run:
        rows = run.sql(
            "SELECT collectives.step, rank, count(*) AS n"
            " FROM collectives JOIN groups USING (rank, group_id)"
            " WHERE axis = 'ep' AND op = 'all_to_all' AND collectives.step > 0 GROUP BY ALL"
        ).to_pylist()
    assert len(rows) == 4 * (STEPS - 1)
    # there and back, and the gradients the opposite way
    assert {row["n"] for row in rows} == {4 * MICROBATCHES}


@pytest.mark.sampled
@pytest.mark.parametrize("spread", [(1, 1, 2), (1, 1, 2, "--groups", "2")])
def test_experts_on_other_ranks_compute_what_those_of_the_own_rank_do(
    train_moe: Run, spread: tuple[Any, ...]
) -> None:
    assert losses(train_moe(*spread)) == pytest.approx(losses(train_moe(1, 2, 1)), rel=1e-4)


def test_a_hot_expert_gets_every_token_and_a_dead_one_none(train_moe: Run) -> None:
    faults = ("--fault", "hot-expert=3,from=2", "--fault", "dead-expert=1,from=2")
    with open_run(train_moe(1, 1, 2, *faults)[0]) as run:
        rows = run.sql("SELECT * FROM expert_load").to_pylist()
        marks = run.sql("SELECT text FROM marks WHERE kind = 'fault'").to_pylist()
    for row in rows:
        if row["step"] >= 2:
            assert row["tokens"][3] == row["batch_tokens"]
            assert row["tokens"][1] == 0
        else:
            assert 0 < row["tokens"][1] < row["batch_tokens"]
    texts = {mark["text"] for mark in marks}
    assert texts == {"every token is sent to expert 3", "no token is sent to expert 1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nproc", "4"], "pp 2 x dp 2 x ep 2 is 8 ranks, not 4: give --nproc 8"),
        (["--nproc", "8", "--experts", "9"], "9 experts do not split over 2 ranks"),
        (["--nproc", "8", "--top-k", "9"], "each token goes to 9 of 8 experts"),
        (["--nproc", "8", "--groups", "9"], "4 sequences do not make 9 groups"),
        (["--nproc", "8", "--fault", "hot-expert=8"], "names expert 8 of 8; give 0 to 7"),
        (["--nproc", "8", "--fault", "late-rank=1"], "late-rank is not of this job"),
    ],
)
def test_wrong_options_end_with_a_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse_options(arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err
