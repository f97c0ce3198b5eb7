"""How findings about faults of one machine are judged, and that faults leave no trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.host_faults import drawn, read
from benchmarks.hosts.faults import KINDS, Fault
from benchmarks.hosts.job import Episode, Job, meets, note
from benchmarks.hosts.report import report


def finding(kind: str, ranks: tuple[int, ...], cause: str, **values: Any) -> dict[str, Any]:
    places = [{"rank": rank, "host": f"node{rank // 2}"} for rank in ranks]
    given = {"kind": kind, "culprits": places, "hosts": [], "stages": [], "cause": cause}
    return given | {"text": "", "title": "", "first_step": 30, "last_step": 60} | values


def episode(fault: str, ranks: tuple[int, ...]) -> Episode:
    return Episode(fault, KINDS[fault].doses[0], "node2", ranks, first=28, last=66)


@pytest.mark.parametrize(
    ("fault", "ranks", "found", "who", "cause", "wrong"),
    [
        ("quota", (4, 5), finding("slow_worker", (4, 5), "the CPU quota holds it"), True, True, 0),
        ("quota", (4, 5), finding("slow_worker", (5,), "no idea"), True, False, 0),
        ("quota", (4, 5), finding("slow_worker", (3,), "the CPU quota holds it"), False, False, 1),
        ("quota", (4, 5), finding("slow_worker", (3, 4), "CPU quota"), False, False, 1),
        ("quota", (4, 5), finding("slow_link", (4, 5), "the CPU quota holds it"), False, False, 0),
        ("stop", (5,), finding("slow_worker", (4,), "is stopped by a signal"), False, False, 0),
        ("stop", (5,), finding("slow_worker", (5,), "is stopped by a signal"), True, True, 0),
        ("fsync", (4, 5), finding("slow_checkpoint", (), "tasks wait for a disk"), True, True, 0),
        (
            "fsync",
            (4, 5),
            finding("slow_checkpoint", (4,), "some task waits for a disk"),
            True,
            True,
            0,
        ),
        (
            "fsync",
            (4, 5),
            finding("slow_checkpoint", (3,), "tasks wait for a disk"),
            False,
            False,
            1,
        ),
        ("quota", (4, 5), finding("step_regression", (), "CPU quota"), False, False, 0),
        ("network", (4, 5), finding("slow_host", (), "", hosts=["node2"]), True, True, 0),
        ("network", (4, 5), finding("slow_host", (), "", hosts=["node1"]), False, False, 1),
    ],
)
def test_what_a_finding_is_for_an_episode(
    fault: str, ranks: tuple[int, ...], found: dict[str, Any], who: bool, cause: bool, wrong: int
) -> None:
    one = episode(fault, ranks)
    note(one, found)
    assert (one.who, one.cause, len(one.wrong)) == (who, cause, wrong)


def test_a_finding_is_about_the_episode_it_begins_in_or_mostly_covers() -> None:
    one = episode("quota", (4, 5))
    steps = [(30, 300), (0, 300), (0, 66), (70, 90), (66, 90)]
    met = [
        meets(one, finding("slow_worker", (4,), "", first_step=a, last_step=b)) for a, b in steps
    ]
    assert met == [True, False, True, False, True]
    twice = finding(
        "slow_worker", (4,), "", first_step=0, last_step=90, episodes=[[0, 9], [30, 66]]
    )
    assert meets(one, twice)
    assert not meets(one, twice | {"episodes": [[0, 9], [80, 90]]})


def test_every_fault_and_dose_comes_as_often() -> None:
    jobs = drawn(7, list(KINDS))
    faults = [fault[:2] for _ in range(6) for fault in next(jobs)]
    assert sorted(faults) == sorted((name, dose) for name, k in KINDS.items() for dose in k.doses)


def test_results_and_report(tmp_path: Path) -> None:
    one = episode("quota", (4, 5))
    note(one, finding("slow_worker", (4, 5), "the CPU quota holds it"))
    one.step_ratio = 1.5
    jobs = [Job("a", [one], 100, 400.0, 20.0), Job("b", [], 100, 400.0, 90.0, false=["slow [1]"])]
    file = tmp_path / "results.jsonl"
    file.write_text("".join(json.dumps(job.to_json()) + "\n" for job in jobs))
    text = report(read(file))
    assert "| quota 0.3 | 1 | 1.50 to 1.50x | 1 of 1 (21-100 %) | 1 of 1" in text
    assert "| healthy jobs | 1 | 1.5 | 1 | 0 |" in text
    assert "- b: slow [1]" in text


def test_a_quota_begins_and_ends(tmp_path: Path) -> None:
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    quota = tmp_path / "cpu.cfs_quota_us"
    quota.write_text("-1\n")
    host = {"name": "node1", "ranks": {"2": 1, "3": 1}, "groups": {"cpu": str(tmp_path)}}
    fault = Fault("quota", 0.3, 1, host, tmp_path)
    fault.begin()
    assert quota.read_text() == "30000"
    fault.end()
    assert quota.read_text() == "-1"
