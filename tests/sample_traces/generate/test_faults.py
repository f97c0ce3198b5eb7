"""Faults and sizes of synthetic jobs: how they are written, and what is refused."""

import re

import pytest

from sample_traces.generate.faults import KINDS, SyntheticFault
from sample_traces.generate.job import SyntheticJob


def test_target_dose_and_steps() -> None:
    fault = SyntheticFault.parse("slow_worker=137,x=1.3,from=8")
    assert fault == SyntheticFault("slow_worker", 137, 1.3, 8, None)
    assert fault.to_json() == {"kind": "slow_worker", "rank": 137, "x": 1.3, "from": 8, "to": None}


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("slow_worker=137,x=1.3,from=8", "slow worker on rank 137, 1.3x, from step 8 to the end"),
        ("slow_host=2,to=9", "slow host on host 2, 5x, from step 0 to step 9"),
        ("gc_pauses,ms=60", "gc pauses, 60 ms, from step 0 to the end"),
        ("dead_units,from=6", "dead units from step 6 to the end"),
    ],
)
def test_in_words_with_units(fault: str, text: str) -> None:
    assert SyntheticFault.parse(fault).text == text


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_default_dose(kind: str) -> None:
    target = "" if KINDS[kind].target == "job" else "=0"
    assert SyntheticFault.parse(kind + target).dose == KINDS[kind].default


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slow_woker=1", "unknown fault 'slow_woker'"),
        ("slow_worker", "needs a rank; write slow_worker=3,x=1.3"),
        ("gc_pauses=4", "takes no number; write gc_pauses,ms=30"),
        ("slow_worker=1,ms=4", "no option 'ms'; it has: from, to, x"),
        ("slow_worker=1,x=0.9", "give a factor of at least 1"),
        ("slow_worker=a", "needs a number after the ="),
        ("slow_worker=1,from=5,to=2", "acts from step 5 to 2"),
    ],
)
def test_mistakes_name_the_value_and_the_remedy(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="fault") as error:
        SyntheticFault.parse(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("sizes", "fault", "message"),
    [
        ({"num_ranks": 10, "pp": 4}, None, "do not divide by pp 4 x tp 1"),
        ({"num_ranks": 0}, None, "num_ranks is 0"),
        ({"num_ranks": 8, "level": "kernels"}, None, "known: steps, spans"),
        ({"num_ranks": 8}, "slow_worker=8", "hits rank 8 of 8"),
        ({"num_ranks": 8}, "slow_stage=1", "hits stage 1 of 1"),
        ({"num_ranks": 8}, "gc_pauses,from=20", "begins in step 20 of 20"),
        ({"num_ranks": 8, "pp": 2}, "slow_link=5", "is on the last stage"),
    ],
)
def test_impossible_jobs_are_refused(sizes: dict, fault: str | None, message: str) -> None:
    faults = (SyntheticFault.parse(fault),) if fault else ()
    with pytest.raises(ValueError, match=re.escape(message)):
        SyntheticJob(**sizes, faults=faults)
