"""Faults of the real job: how they are written, and what is refused."""

import pytest

from sample_traces.jobs.faults import FINDING_KINDS, KINDS, OF_AN_EXPERT, Fault


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


@pytest.mark.parametrize("kind", ["gc", "slow-loader", "late-step", "spikes", "slow-save"])
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
        ("spikes=2,every=0", "give more than 0"),
        ("spikes=2,every=1.5", "give a whole number"),
        ("slow-job=2", "is of all ranks; leave out rank 2"),
        ("slow-network=2,mb=1", "is of all ranks; leave out rank 2"),
        ("slow-link=2,mb=1", "needs two ranks; write slow-link=5,peer=7"),
        ("slow-link=2,peer=2", "needs two ranks; write slow-link=5,peer=7"),
        ("burner,share=2", "needs a rank; write burner=5"),
        ("hot-expert", "needs an expert; write hot-expert=5"),
        ("dead-expert=all", "names no expert; write dead-expert=5"),
        ("slow-expert-rank,x=2", "needs a rank; write slow-expert-rank=5"),
    ],
)
def test_mistakes_name_the_value_and_the_remedy(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="fault") as error:
        Fault.parse(text)
    assert message in str(error.value)


def test_a_fault_of_an_expert_names_it_in_the_truth() -> None:
    fault = Fault.parse("hot-expert=3,from=20")
    assert (fault.rank, fault.expert) == (None, 3)
    assert fault.to_json() == {"kind": "hot_expert", "expert": 3, "from": 20, "to": None}


def test_what_strikes_now_and_then_does_so_once_a_turn() -> None:
    fault = Fault.parse("spikes,every=8,from=10,to=49")
    struck = [step for step in range(60) if fault.strikes(step)]
    assert [(step - 10) // 8 for step in struck] == [0, 1, 2, 3, 4]
    assert len({(step - 10) % 8 for step in struck}) > 1  # at another place each time
    on_one = Fault.parse("spikes=3,every=8,from=10,to=49")
    assert struck == [step for step in range(60) if on_one.strikes(step)]


def test_a_job_saves_before_its_storage_is_slow() -> None:
    fault = Fault.parse("slow-save=1,every=5,from=10,to=20")
    assert [step for step in range(30) if fault.saves(step)] == [4, 9, 14, 19, 24, 29]
    assert [step for step in range(30) if fault.strikes(step)] == [14, 19]


def test_every_fault_has_a_label() -> None:
    assert set(FINDING_KINDS) == set(KINDS)
    assert Fault.parse("slow-rank=5,x=1.6,from=6").to_json() == {
        "kind": "slow_worker",
        "rank": 5,
        "x": 1.6,
        "from": 6,
        "to": None,
    }


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"gc"}))
def test_every_fault_says_what_it_does(kind: str) -> None:
    of_all = {"slow-job": "every rank", "slow-network": "replicas"}
    of_all |= dict.fromkeys(OF_AN_EXPERT, "expert 4")
    fault = Fault(kind, None if kind in of_all else 2, peer=3, expert=4)
    assert of_all.get(kind, "rank 2") in fault.text
