"""Slow ranks that only have longer sequences."""

from __future__ import annotations

import pytest

from diagnosis.findings import Evidence, Finding, Place
from diagnosis.loading.longer import with_longer_sequences
from tests.diagnosis.loading.test_balance import LONG, SHORT, answers

LONG_ON_ONE = {
    (rank, microbatch): [LONG if rank == 2 else SHORT, SHORT]
    for rank in range(4)
    for microbatch in range(2)
}


def slow(rank: int, slowdown: float, first_step: int = 0, last_step: int = 5) -> Finding:
    return Finding(
        kind="slow_worker",
        attempt=0,
        severity="urgent",
        confidence="high",
        title=f"Rank {rank} is slow",
        text="Its compute takes longer.",
        culprits=(Place(rank),),
        first_step=first_step,
        last_step=last_step,
        ongoing=True,
        slowdown=slowdown,
        evidence=(Evidence("It takes longer.", slowdown, "x", "rank_work"),),
        alternatives=("Slow memory.",),
        next_step="Swap it out.",
    )


def test_long_sequences_are_the_cause() -> None:
    (found,) = with_longer_sequences((slow(2, 5.5),), answers(LONG_ON_ONE))
    assert found.kind == "sequence_imbalance"
    assert found.title == "Rank 2 has longer sequences than its peers"
    assert found.culprits == (Place(2),)
    assert found.alternatives == ()
    assert found.evidence[-1].number == pytest.approx(22.1 / 3.2, rel=0.05)
    assert found.evidence[-1].params == (("attempt", 0), ("step_min", 0), ("step_max", 5))


@pytest.mark.parametrize(
    "finding",
    [
        slow(1, 5.5),  # its sequences are short
        slow(2, 5.5, first_step=40, last_step=50),  # nothing is known of these steps
    ],
)
def test_a_slow_rank_stays_slow(finding: Finding) -> None:
    assert with_longer_sequences((finding,), answers(LONG_ON_ONE)) == (finding,)


def test_a_rank_that_is_slow_besides_stays_slow_and_its_sequences_are_evidence() -> None:
    (found,) = with_longer_sequences((slow(2, 30.0),), answers(LONG_ON_ONE))
    assert found.kind == "slow_worker"
    assert "The lengths of its sequences let expect" in found.evidence[-1].sentence


def test_without_lengths_a_slow_rank_stays_slow() -> None:
    finding = slow(2, 5.5)
    assert with_longer_sequences((finding,), {}) == (finding,)
    assert with_longer_sequences((), answers(LONG_ON_ONE)) == ()
