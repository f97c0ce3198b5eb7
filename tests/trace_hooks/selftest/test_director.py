"""What rank 0 gives out next: the plan, rechecks, and what the budget leaves out."""

from __future__ import annotations

from typing import Any

from tests.selftest_runs import SECONDS
from trace_hooks.selftest.conductor import STOP
from trace_hooks.selftest.director import LONGEST_S, RESERVED, Director
from trace_hooks.selftest.plan import PAIR_TESTS, RECHECK, Sizes, Unit, plan

HOSTS = ["a"] * 8
SLOW = (2, 5)


class Job:
    """Ranks that measure what they are given; a unit takes `unit_s`."""

    def __init__(self, budget_s: float, unit_s: float = 0.0, is_cuda: bool = False) -> None:
        self.now = 0.0
        self.given: list[tuple[str, float]] = []
        self._unit_s = unit_s
        units = plan(HOSTS, "cpu", Sizes.of("cpu"))
        self.director = Director(units, budget_s, is_cuda, lambda: self.now)

    def run(self, broken_at: int | None = None) -> dict[str, Any]:
        answers: list[dict[str, Any]] = [{"rows": [], "is_broken": False}] * len(HOSTS)
        while True:
            message = self.director.take(answers)
            if "unit" not in message:
                return message
            unit = Unit.from_json(message["unit"])
            self.given.append((unit.test, message["seconds"]))
            self.now += self._unit_s
            is_broken = len(self.given) == broken_at
            answers = [
                {"rows": rows_of(unit, rank), "is_broken": is_broken and rank == 3}
                for rank in range(len(HOSTS))
            ]

    @property
    def tests(self) -> list[str]:
        return [test for test, _ in self.given]


def rows_of(unit: Unit, rank: int) -> list[dict[str, Any]]:
    group = unit.group_of(rank)
    if group is None:
        return []
    is_pair = unit.test.removesuffix(RECHECK) in PAIR_TESTS
    seconds = SECONDS.get(unit.test.removesuffix(RECHECK), 0.01) * (5 if group == SLOW else 1)
    return [
        {
            "rank": rank,
            "peer": next(other for other in group if other != rank) if is_pair else -1,
            "test": unit.test,
            "num_bytes": unit.num_bytes,
            "seconds_min": seconds * (1 + rank / 1000),
        }
    ]


def test_the_slow_pair_is_measured_again_with_a_control_before_groups() -> None:
    job = Job(budget_s=60.0)
    assert job.run() == {"end": True}
    first_group = job.tests.index("halves")
    assert job.tests[:2] == ["matmul", "memory"]
    assert set(job.tests[2:16]) == {"mesh"}
    assert set(job.tests[16:first_group]) == {"mesh" + RECHECK}
    assert first_group == 16 + 2 * 3 * 2  # two sizes, three times, suspect and control
    assert not job.director.left_out


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    job = Job(budget_s=10.0, unit_s=1.0)
    job.run()
    before = [test for test in job.tests if RECHECK not in test]
    assert len(before) == 8  # until the reserve begins
    assert job.director.left_out["mesh"] == 16 - len(before)
    assert job.director.left_out["halves"] == 2
    assert job.now <= 10.0


def test_units_share_what_is_left() -> None:
    job = Job(budget_s=10.0)
    job.run()
    num_units = len(plan(HOSTS, "cpu", Sizes.of("cpu")))
    assert job.given[0][1] == 10.0 * (1 - RESERVED) / num_units
    assert max(seconds for _, seconds in job.given) <= LONGEST_S


def test_after_a_failed_transfer_there_are_no_groups_and_no_rechecks() -> None:
    job = Job(budget_s=60.0)
    job.run(broken_at=5)
    assert job.director.is_broken
    assert set(job.tests) == {"matmul", "memory", "mesh"}
    assert job.director.left_out == {"halves": 2, "all_reduce": 3}


def test_with_nccl_a_failed_transfer_is_the_end() -> None:
    assert Job(budget_s=60.0, is_cuda=True).run(broken_at=5) == {
        STOP: "a transfer failed",
        "ranks": [],
    }
