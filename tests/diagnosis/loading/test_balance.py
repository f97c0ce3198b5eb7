"""The same sequences dealt again: what a step would take."""

from __future__ import annotations

from itertools import chain, product

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.loading.balance import Balance, balance_of, deal
from diagnosis.loading.gain import sentence

LONG, SHORT = 1_000, 100


def answers(
    lengths_by_place: dict[tuple[int, int], list[int]], steps: int = 6, pp: int = 1
) -> dict[str, pa.Table]:
    """Of a job on the CPU whose micro-batches take 1 ms + .01 ms a token + 1e-5 ms a squared token,
    a third of it forward; `lengths_by_place` by rank and micro-batch, a bit longer in each step.
    """
    lengths, work = [], []
    for step, ((rank, microbatch), own) in product(range(steps), lengths_by_place.items()):
        now = [length + step for length in own]
        lengths.append({"rank": rank, "step": step, "microbatch": microbatch, "lengths": now})
        ms = 1 + 0.01 * sum(now) + 1e-5 * sum(length**2 for length in now)
        times = {"forward": ms / 3, "backward": 2 * ms / 3}
        work.append(
            {"rank": rank, "step": step, "microbatch": microbatch, "chunk": 0}
            | {f"{name}_cpu_ms": value for name, value in times.items()}
            | {f"{name}_ms": 10 * value for name, value in times.items()}  # others had the cores
        )
    ranks = sorted({rank for rank, _ in lengths_by_place})
    places = [
        {"rank": rank, "host": "a", "device": "cpu", "world_size": len(ranks) * pp}
        | {"pp": 0, "dp": place, "cp": None, "tp": 0, "ep": None}
        for place, rank in enumerate(ranks)
    ]
    places += [places[0] | {"rank": 100 + stage, "pp": stage} for stage in range(1, pp)]
    named = {"batch_lengths": lengths, "microbatch_work": work, "rank_places": places}
    return {name: pa.Table.from_pylist(rows) for name, rows in named.items()}


def balanced(lengths_by_place: dict[tuple[int, int], list[int]], pp: int = 1) -> Balance:
    found = balance_of(answers(lengths_by_place, pp=pp))
    assert found is not None
    return found


TWO_REPLICAS = {
    (0, 0): [LONG, SHORT],
    (0, 1): [LONG, SHORT],
    (1, 0): [SHORT, SHORT],
    (1, 1): [SHORT, SHORT],
}


def test_replicas_with_long_sequences_share_them() -> None:
    found = balanced(TWO_REPLICAS)
    assert found.model.error < 0.01
    first = found.steps[0]
    long, short, both = 1 + 11 + 10.1, 1 + 2 + 0.2, 1 + 10 + 10
    assert first.drawn_RM == pytest.approx(np.array([[long, long], [short, short]]), rel=0.01)
    assert first.measured_RM == pytest.approx(first.drawn_RM, rel=0.01)
    assert first.drawn.at_step == pytest.approx(2 * long, rel=0.01)
    assert first.drawn.at_microbatch == pytest.approx(2 * long, rel=0.01)
    assert first.drawn.in_pipeline is None
    assert first.dealt is not None
    assert first.dealt_RM is not None
    assert np.sort(first.dealt_RM.sum(axis=1)) == pytest.approx(
        [first.dealt_RM.sum() / 2] * 2, rel=0.01
    )
    assert first.dealt.at_step < first.drawn.at_step
    assert first.dealt.at_step >= both
    assert found.of_replicas == pytest.approx(2 * long / (long + short), rel=0.01)
    gain = found.gain("at_step")
    assert gain == pytest.approx(1 - found.steps[0].dealt.at_step / (2 * long), abs=0.02)
    assert found.gain("in_pipeline") is None


def test_micro_batches_that_run_at_the_same_time_cost_alike() -> None:
    """Fully sharded replicas wait for each other after each micro-batch."""
    found = balanced(
        {(0, 0): [LONG], (0, 1): [SHORT], (1, 0): [SHORT], (1, 1): [LONG]},
    )
    assert found.gain("at_step") == pytest.approx(0, abs=0.01)
    gain = found.gain("at_microbatch")
    assert gain is not None
    assert gain > 0.4


def test_a_pipeline_is_as_long_as_1f1b_makes_it() -> None:
    found = balanced(TWO_REPLICAS, pp=2)
    first = found.steps[0]
    long = first.drawn_RM[0, 0]
    assert first.drawn.in_pipeline == pytest.approx(3 * long, rel=0.01)  # 2 micro-batches, 2 stages
    gain = found.gain("in_pipeline")
    assert gain is not None
    assert 0.2 < gain < 0.5


def test_whole_batches_without_micro_batches() -> None:
    tables = answers({(0, -1): [LONG, LONG], (1, -1): [SHORT, SHORT], (2, -1): [SHORT, LONG]})
    found = balance_of(tables)
    assert found is not None
    assert found.steps[0].drawn_RM.shape == (3, 1)


def test_what_is_even_gains_nothing() -> None:
    even = {(rank, microbatch): [LONG, SHORT] for rank in range(2) for microbatch in range(3)}
    assert balanced(even).gain("at_step") == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("tables", [answers({}), answers(TWO_REPLICAS, steps=2)])
def test_too_little_is_known(tables: dict[str, pa.Table]) -> None:
    empty = tables["batch_lengths"].num_columns == 0
    if empty:
        columns = {"step": [], "rank": [], "microbatch": [], "lengths": []}
        tables = tables | {"batch_lengths": pa.table(columns)}
    assert balance_of(tables) is None


def test_dealing_keeps_every_sequence_and_the_limit() -> None:
    source = np.random.default_rng(5)
    lengths = sorted(source.integers(1, 400, 60).tolist(), reverse=True)
    parts = deal(lengths, [length**2 for length in lengths], 12, 1_300)
    assert parts is not None
    assert sorted(chain.from_iterable(parts)) == sorted(lengths)
    assert max(map(sum, parts)) <= 1_300
    assert min(map(len, parts)) > 0


def test_what_does_not_fit_is_not_dealt() -> None:
    assert deal([60, 60, 60], [3.0, 2.0, 1.0], 2, 100) is None


def test_rows_that_are_packed_to_the_brim_are_modelled_and_not_dealt() -> None:
    full = {(0, 0): [700, 300], (0, 1): [600, 400], (1, 0): [350, 650], (1, 1): [340, 330, 330]}
    found = balanced(full)
    assert [step.dealt for step in found.steps] == [None] * 6
    assert found.gain("at_step") is None
    assert found.of_replicas > 1.03
    assert "packed to the brim" in sentence(found)
