"""What the page Fleet shows of summaries made by hand."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest

from app.analysis.fleet.board import Standing
from app.analysis.fleet.page import NOT_RECORDED, PAGE_ROWS, Choice, date_of, shown
from app.analysis.fleet.text import host_text
from benchmarks.random_fleets import fleet_run
from diagnosis.fleet.hosts import slow_hosts
from diagnosis.fleet.summary import Summary
from ingest.errors import UserError


def standing(runs: dict[str, Summary], **changed: Any) -> Standing:
    plain: dict[str, Any] = {
        "problems": {}, "num_missing": 0, "current": None, "num_elsewhere": 0
    }  # fmt: skip
    return Standing(runs, slow_hosts(runs), **{**plain, **changed})


def three_runs() -> dict[str, Summary]:
    return {
        "a": fleet_run("a", 0, 0, [0, 1], []),
        "b": fleet_run("b", 1, 1, [1, 2], [2]),
        "c": msgspec.structs.replace(fleet_run("c", 1, 2, [2, 3], []), model="", S=None),
    }


def names(choice: Choice, runs: dict[str, Summary] | None = None) -> list[str]:
    return [row["run"] for row in shown(standing(runs or three_runs()), choice)["rows"]]


def test_what_lost_most_comes_first() -> None:
    answer = shown(standing(three_runs()), Choice())
    assert [row["run"] for row in answer["rows"]] == ["b", "a", "c"]
    row = answer["rows"][0]
    assert row["finding"] == {"id": "slow_worker-0-8-100", "title": "Rank 8 is slow"}
    assert row["share"] == pytest.approx(row["lost"] / row["hours"])
    assert [one["text"] for one in answer["fleet"]["causes"] if one["cause"] == "slow_worker"] == [
        "slow rank"
    ]
    assert answer["models"] == ["job0", "job1", NOT_RECORDED]
    assert answer["hosts"] == ["gpu0000", "gpu0001", "gpu0002", "gpu0003"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice(model="job0"), {"a"}),
        (Choice(model=NOT_RECORDED), {"c"}),
        (Choice(host="gpu0001"), {"a", "b"}),
        (Choice(first=date(2026, 1, 2)), {"b", "c"}),
        (Choice(first=date(2026, 1, 2), last=date(2026, 1, 2)), {"b"}),
        (Choice(last=date(2025, 12, 31)), set()),
    ],
)
def test_filters(choice: Choice, expected: set[str]) -> None:
    assert set(names(choice)) == expected


def test_a_run_without_a_start_is_in_no_choice_of_days() -> None:
    runs = {"a": msgspec.structs.replace(three_runs()["a"], started_ns=None)}
    assert names(Choice(), runs) == ["a"]
    assert names(Choice(first=date(1990, 1, 1)), runs) == []


def test_what_is_unknown_comes_last_in_both_orders() -> None:
    assert names(Choice(sort="S", descending=True)) == ["b", "a", "c"]
    assert names(Choice(sort="S", descending=False)) == ["a", "b", "c"]
    assert names(Choice(sort="model", descending=False)) == ["a", "b", "c"]


def test_an_unknown_column_is_one_sentence() -> None:
    with pytest.raises(UserError, match="sort is 'x'"):
        names(Choice(sort="x"))


def test_pages_of_the_table() -> None:
    runs = {f"r{n:03d}": fleet_run(f"r{n:03d}", 0, n, [0, 1], []) for n in range(PAGE_ROWS + 5)}
    last = shown(standing(runs), Choice(sort="run", descending=False, page=1))
    assert (last["num_pages"], last["page"], len(last["rows"])) == (2, 1, 5)
    beyond = shown(standing(runs), Choice(sort="run", descending=False, page=99))
    assert (beyond["page"], beyond["rows"]) == (1, last["rows"])


def test_hosts_are_those_of_all_runs_whatever_is_chosen() -> None:
    runs = {f"r{n}": fleet_run(f"r{n}", 0, n, [0, 1 + n % 7, 8], [0]) for n in range(8)}
    answer = shown(standing(runs), Choice(model="none such"))
    assert answer["fleet"]["num_runs"] == 0
    (named,) = answer["fleet"]["hosts"]["named"]
    assert named["text"].startswith("gpu0000, or its place in the jobs (that of rank 0): slow")


def test_words_of_a_host_that_moved() -> None:
    runs = {
        f"r{n}": fleet_run(f"r{n}", 0, n, [1 + n % 7, 0, 8] if n % 2 else [0, 1 + n % 7, 8], [0])
        for n in range(8)
    } | {f"s{n}": fleet_run(f"s{n}", 0, n, [1 + n % 7, 8 - n % 7, 9], []) for n in range(30)}
    (named,) = slow_hosts(runs).named
    assert host_text(named).startswith("gpu0000: slow in 8 of 8 runs, where chance explains")


def test_points_are_of_runs_with_a_size_and_an_mfu() -> None:
    runs = three_runs()
    runs["b"] = msgspec.structs.replace(runs["b"], mfu=None)
    points = shown(standing(runs), Choice())["points"]
    assert [point["run"] for point in points] == ["c", "a"]


def test_an_empty_folder() -> None:
    answer = shown(standing({}), Choice())
    assert (answer["rows"], answer["num_pages"], answer["page"]) == ([], 1, 0)


def test_runs_that_cannot_be_read() -> None:
    answer = shown(standing({}, problems={"b": "why"}, num_missing=2, current="c"), Choice())
    assert answer["problems"] == [{"run": "b", "why": "why"}]
    assert (answer["num_missing"], answer["current"]) == (2, "c")


def test_dates() -> None:
    assert date_of("from", "") is None
    assert date_of("from", "2026-02-28") == date(2026, 2, 28)
    with pytest.raises(UserError, match="until is '2026-02-30'"):
        date_of("until", "2026-02-30")
