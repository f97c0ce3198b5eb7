"""Faults of the real job: how they are written, and what is refused."""

import pytest

from sample_traces.jobs.faults import FINDING_KINDS, KINDS, Fault


def test_range_of_steps_and_dose() -> None:
    fault = Fault.parse("slow-rank=5,x=1.3,from=20,to=22")
    assert (fault.kind, fault.rank, fault.x) == ("slow-rank", 5, 1.3)
    assert [step for step in range(18, 25) if fault.active(step)] == [20, 21, 22]
    assert Fault.parse("slow-rank=5,from=20").active(10_000)


@pytest.mark.parametrize("kind", ["hang", "hold-gil", "nan", "kill"])
def test_faults_of_one_step(kind: str) -> None:
    fault = Fault.parse(f"{kind}=3@7")
    assert fault.rank == 3
    assert [step for step in range(10) if fault.active(step)] == [7]


@pytest.mark.parametrize("kind", ["gc", "slow-loader"])
def test_faults_of_no_particular_rank(kind: str) -> None:
    assert Fault.parse(kind).rank is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slow-rnak=5", "unknown fault 'slow-rnak'; known: slow-rank"),
        ("slow-rank", "needs a rank; write slow-rank=5"),
        ("slow-rank=five", "names no rank; write slow-rank=5"),
        ("slow-rank=5,x=fast", "has x='fast'; give a number"),
        ("slow-rank=5,x=0.5", "give a factor of at least 1"),
        ("slow-rank=5,ms=3", "no option 'ms'; it has: x, from, to"),
        ("slow-rank=5,from=2.5", "give a whole number"),
        ("slow-rank=5,from=9,to=3", "ends in step 3, before it begins in 9"),
        ("kill=5", "needs rank and step; write kill=5@8"),
        ("late-rank=2,ms=0", "give more than 0"),
    ],
)
def test_mistakes_name_the_value_and_the_remedy(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="fault") as error:
        Fault.parse(text)
    assert message in str(error.value)


def test_every_fault_has_a_label() -> None:
    assert set(FINDING_KINDS) == set(KINDS)
    assert Fault.parse("slow-rank=5,x=1.6,from=6").to_json() == {
        "kind": "slow_worker",
        "rank": 5,
        "x": 1.6,
        "from": 6,
        "to": None,
    }
