"""`rankscope info` and `rankscope query` agree with the README of the real traces, row by row."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from app.analysis.imports import import_paths
from app.cli import main
from tests.folders import NO_TRACES, TRACES

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)


def _kineto_facts() -> dict[str, list[dict[str, Any]]]:
    path = TRACES / "facts.json"
    if not path.is_file():
        return {}
    facts = {name: about["facts"] for name, about in json.loads(path.read_text()).items()}
    return {name: f for name, f in facts.items() if f and name.startswith("kineto/")}


FACTS = _kineto_facts()


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The JSON a verb prints; nothing else may come, and it must succeed."""
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The run of a trace, read once for all tests; those below name the files themselves."""
    runs = tmp_path_factory.mktemp("runs")
    return cache(lambda name: str(import_paths([TRACES / name], runs)))


@pytest.mark.sampled
@pytest.mark.parametrize("name", FACTS)
def test_info_agrees_with_the_counted_facts(
    name: str, imported: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    facts = FACTS[name]
    summary = output_of(capsys, "info", imported(name))
    answer = {fact["rank"] for fact in facts if fact.get("rank") is not None}
    assert sum(summary["events_per_rank"].values()) == sum(fact["n"] for fact in facts)
    assert summary["steps"] == sorted({step for fact in facts for step in fact["steps"]})
    assert summary["num_ranks"] == len(facts)
    assert {str(rank) for rank in answer} <= set(summary["events_per_rank"])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("kineto/megatron_tp2/pytorch_et_0.json", "a PyTorch execution trace"),
        ("kineto/hta/memory_analysis__memory_timeline.raw.gz", "a PyTorch memory timeline"),
        ("README.md", "plain text"),
    ],
)
@pytest.mark.parametrize("verb", ["info", "query"])
def test_what_is_no_trace_is_refused_by_its_name(
    name: str, kind: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["SELECT 1"] if verb == "query" else []
    assert main([verb, str(TRACES / name), *more, "--json"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert kind in err


UNKNOWN = [
    "kineto/hta/distributed_info_unavailable__distributed_info_not_found.json.gz",
    "kineto/hta/rank_unavailable__rank_not_found.json.gz",
    "kineto/tracelens/mi210__gpu_only_trace.json.gz",
    "chrome/byteps_truncated.json",
]


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_rank_missing_from_all_files_is_unknown(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = output_of(capsys, "info", str(TRACES / name))
    assert list(summary["events_per_rank"]) == ["unknown"]
    assert summary["world_size"] is None
    assert any("shown as rank 0" in guess for guess in summary["guesses"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kineto/megatron_tp2", "pytorch_et_0.json is a PyTorch execution trace"),
        ("chrome/byteps_truncated.json", "cut off at byte 165,046"),
    ],
)
def test_what_was_not_read_is_a_problem_of_the_run(
    name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = output_of(capsys, "info", str(TRACES / name))["problems"]
    assert any(message in problem for problem in problems)


ROWS: list[tuple[str, str, list[list[Any]]]] = [
    (
        "kineto/resnet50/workers0__worker0.1623143089861.pt.trace.json.gz",
        "SELECT round(sum(dur_ns) FILTER (kind = 'kernel') / 1e6, 1) AS busy_ms,"
        " (SELECT round((ended_ns - started_ns) / 1e6, 1) FROM ranks) AS all_ms FROM spans",
        [[591.5, 1065.7]],
    ),
    (
        "kineto/resnet50/workers4__worker0.1623212756351.pt.trace.json.gz",
        "SELECT round(sum(dur_ns) FILTER (kind = 'kernel') / 1e6, 1) AS busy_ms,"
        " (SELECT round((ended_ns - started_ns) / 1e6, 1) FROM ranks) AS all_ms FROM spans",
        [[594.9, 847.0]],
    ),
    (
        "kineto/hta/nccl_parser_config__nccl_data.json.gz",
        "SELECT op, count(*) AS n, min(num_bytes) > 0 AS has_size FROM collectives"
        " GROUP BY op ORDER BY 1",
        [["all_reduce", 15, True], ["broadcast", 6, True]],
    ),
    (
        "kineto/hta/cpu_only__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
        "SELECT rank, world_size, (SELECT count(*) FROM spans WHERE track LIKE 'GPU%') AS n"
        " FROM ranks",
        [[34, 300, 0]],
    ),
    (
        "kineto/hta/ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
        "SELECT round((ended_ns - started_ns) / 1e9, 2) AS s FROM ranks",
        [[0.59]],
    ),  # microseconds although displayTimeUnit is ns
    (
        "kineto/tracelens/mi300__resnet_act_checkpoint.json.gz",
        "SELECT (SELECT world_size FROM ranks) AS world, count(*) > 0 AS again FROM spans"
        " WHERE recompute",
        [[8, True]],
    ),
    (
        "kineto/tracelens/mi210__gpu_only_trace.json.gz",
        "SELECT count(*) FILTER (kind = 'kernel') AS kernels,"
        " count(*) FILTER (name LIKE 'aten::%') AS operators FROM spans",
        [[562, 0]],
    ),
    (
        "megascan/pp4",
        "SELECT rank, round(median(dur_ns) FILTER (name = 'forward') / 1e6, 2) AS f,"
        " round(median(dur_ns) FILTER (name = 'backward') / 1e6, 2) AS b FROM spans"
        " GROUP BY rank ORDER BY rank",
        [[0, 3.57, 7.15], [1, 3.14, 6.77], [2, 3.19, 7.15], [3, 4.09, 7.22]],
    ),
    (
        "nsys/mfu_2gpu_before.sqlite",
        "SELECT rank, count(*) AS n, count(*) FILTER (kind = 'other_comm') AS nccl,"
        " round(sum(dur_ns) FILTER (kind = 'other_comm') / 1e6, 1) AS ms FROM spans"
        " WHERE kind IN ('kernel', 'other_comm') GROUP BY rank ORDER BY rank",
        [[0, 1993, 33, 17.2], [1, 2017, 33, 8.2]],
    ),
    (
        "rocpd/matmul_result_large.rpd",
        "SELECT kind, count(*) AS n FROM spans WHERE track LIKE 'GPU%' GROUP BY kind ORDER BY kind",
        [["kernel", 29], ["memcpy", 56]],
    ),
    (
        "flight_recorder/lock_gil_1st",  # the culprits' dumps are empty
        "SELECT list_sort(list(rank)) AS ranks FROM"
        " (SELECT rank FROM ranks EXCEPT SELECT rank FROM collectives)",
        [[[9, 14]]],
    ),
    ("flight_recorder/gpu_error_1st", "SELECT DISTINCT state FROM collectives", [["enqueued"]]),
    (
        "fault_injection/p1-ext-a-loud/injected",
        "SELECT rank, round(median(dur_ns) FILTER (step BETWEEN 100 AND 299) / 1e6"
        " - median(dur_ns) FILTER (step NOT BETWEEN 100 AND 299) / 1e6) AS ms FROM spans"
        " WHERE kind = 'forward' GROUP BY rank ORDER BY ms LIMIT 1",
        [[7, None]],
    ),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "sql", "rows"), ROWS, ids=[name for name, _, _ in ROWS])
def test_query_returns_what_is_in_the_files(
    name: str,
    sql: str,
    rows: list[list[Any]],
    imported: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = [list(row.values()) for row in output_of(capsys, "query", imported(name), sql)]
    assert len(found) == len(rows)
    for values, expected in zip(found, rows, strict=True):
        assert [v for v, e in zip(values, expected, strict=True) if e is not None] == [
            e for e in expected if e is not None
        ]
