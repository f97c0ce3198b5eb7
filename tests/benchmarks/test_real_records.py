"""Results of real jobs: written, read after a kill, gone on from, and printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import real_faults
from benchmarks.real.plan import Crossing, Episode
from benchmarks.real.records import append, read
from benchmarks.real.report import in_time, lines_of, poisson, wilson
from benchmarks.real.score import Job
from ingest.errors import UserError


def row(name: str = "a", number: int | None = 0, **more: Any) -> dict[str, Any]:
    job = {"id": name, "number": number, "seed": 7, "layout": "ddp", "neighbour": False}
    job |= {"loads": [0.5, 1.5], "step_ms": 250.0, "num_steps": 100, "hours": 0.02}
    return job | {"healthy_hours": 0.01, "false": []} | more


def episode(**more: Any) -> Episode:
    usual = {"mark_ns": 10**9, "step_ratio": 1.6, "step_s": 0.4}
    return Episode("late-step", "loud", (1,), 25, 60, 0.7, ["late-step=1"], **usual | more)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.jsonl"
    assert read(path).jobs == []
    found = episode(alert_ns=4 * 10**9, onset=26, wrong=["slow_worker [2]"])
    append(path, row(), [found])
    append(path, row("b", None), [])
    results = read(path)
    assert results.history("ddp") == [found]
    assert results.history("3d") == []
    assert ([job["id"] for job in results.jobs], results.num_crossings) == (["a", "b"], 1)


def test_what_a_kill_left_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append(path, row(), [episode()])
    append(path, row("b", 1), [episode()])
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[: whole.rindex('"healthy_hours"')], encoding="utf-8")
    assert len(read(path).episodes) == 1
    append(path, row("c", 1), [episode()])
    results = read(path)
    assert [job["id"] for job in results.jobs] == ["a", "c"]
    assert [row["job"] for row in results.episodes] == ["a", "c"]


class Recorded(real_faults.Campaign):
    """Appends jobs without running them."""

    def run(self, crossing: Crossing, number: int | None, num_steps: int = 0) -> dict[str, Any]:
        name = str(len(read(self.results).jobs))
        conditions = {"layout": crossing.layout, "neighbour": crossing.neighbour}
        done = row(name, number, faults=list(crossing.faults), **conditions)
        append(self.results, done, [episode() for _ in crossing.faults])
        return done


def campaign(path: Path, *arguments: str) -> list[dict[str, Any]]:
    options = real_faults.parsed(["--results", str(path), *arguments])
    real_faults.with_faults(Recorded(path, None, 7), options)
    return read(path).jobs


def test_a_campaign_goes_on_where_it_ended(tmp_path: Path) -> None:
    at_once = campaign(tmp_path / "a", "--episodes", "40")
    campaign(tmp_path / "b", "--episodes", "16")
    assert campaign(tmp_path / "b", "--episodes", "40") == at_once
    assert [job["number"] for job in at_once if job["number"] is not None] == list(range(10))
    known = set()
    for job in at_once:
        sort = (job["layout"], job["neighbour"])
        assert job["number"] is None or sort in known  # a healthy one tells the step time before
        known.add(sort)


def test_a_campaign_ends_between_jobs_when_its_time_is_over(tmp_path: Path) -> None:
    assert campaign(tmp_path / "results.jsonl", "--minutes", "0") == []


def test_failed_jobs_are_passed_over_but_not_for_ever() -> None:
    left = iter([True, None, None, True, None, None, None])

    def work() -> bool:
        if not next(left):
            raise UserError("the job failed")
        return True

    with pytest.raises(SystemExit, match="3 jobs in a row failed"):
        real_faults.repeat(work, 1.0)
    assert list(left) == []


def test_healthy_jobs_are_of_each_sort_in_turn(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "results.jsonl"
    monkeypatch.setattr(real_faults, "repeat", lambda work, minutes: [work() for _ in range(4)])
    options = real_faults.parsed(["--results", str(path), "--healthy", "9"])
    for _ in range(2):
        real_faults.healthy(Recorded(path, None, 7), options)
    sorts = [(job["layout"], job["neighbour"]) for job in read(path).jobs]
    assert len(set(sorts[:6])) == 6
    assert sorts[6:] == sorts[:2]


def test_the_report(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    kinds = ("slow_worker", [2]), ("step_regression", []), ("data_gaps", [1])
    false = [
        {"kind": kind, "ranks": ranks, "stages": [], "hosts": [], "steps": [3, 9], "longer": 1.2}
        for kind, ranks in kinds
    ]
    append(path, row(false=false), [episode(alert_ns=4 * 10**9), episode(wrong=["slow_op [0]"])])
    append(path, row("b", None), [])
    append(path, row("c", 1), [episode(step_ratio=1.01)])
    text = "\n".join(lines_of(read(path)))
    assert "3 episodes in 2 jobs; 1 stayed below" in text
    assert "| loud | 1 of 2 (9-91 %) | 1 | 1 | 3.0 | 3.0 | 7.5 | 7.5 |" in text
    assert "| between faults | 2 | 0.02 | 800 | 1 | 50.0 (0.7-278.2) | 1 | 0 | 1 |" in text
    assert "| healthy jobs | 1 | 0.01 | 400 | 0 | 0.0 (0.0-366.8) | 0 | 0 | 0 |" in text
    assert "a (ddp, quiet): slow_worker [2], steps 3 to 9 of 100, these steps 1.20x" in text
    assert text.count("not found") == 2


def test_in_time_is_four_steps_and_five_seconds() -> None:
    assert in_time(episode(alert_ns=int(7.5e9)))  # 6.5 s after the mark
    assert not in_time(episode(alert_ns=int(7.7e9)))
    assert not in_time(episode())


def test_intervals() -> None:
    assert wilson(10, 10) == pytest.approx((0.722, 1.0), abs=0.001)
    assert wilson(5, 10)[0] + wilson(5, 10)[1] == pytest.approx(1.0)
    assert poisson(0) == pytest.approx((0.0, 3.69), abs=0.05)
    assert poisson(10) == pytest.approx((4.8, 18.39), abs=0.05)


def test_a_job_without_results_or_report_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        real_faults.parsed(["--minutes", "3"])
    assert "--results FILE" in capsys.readouterr().err


def test_a_row_holds_what_came_of_the_job() -> None:
    job = Job([], step_ms=250.123, num_steps=9, hours=0.1234567)
    assert real_faults.job_row(job)["step_ms"] == 250.12
