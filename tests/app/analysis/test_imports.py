"""Clocks of imported ranks: aligned by the contents of the files, or reported as unknown."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.analysis.imports import import_paths, open_any
from ingest.errors import UserError
from ingest.imports import importer
from ingest.run import Run, open_run
from ingest.summary import info
from tests.folders import NO_TRACES, TRACES

needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
BASE_NS = 1_719_853_884_000_000_000
US, MS, S = 1_000, 1_000_000, 1_000_000_000
Json = dict[str, Any]


def profile(
    rank: int, world_size: int, groups: list[list[int]], ends_us: list[list[float]], **header: Any
) -> Json:
    """A profile of a rank: an all-reduce of 800 us in each of its groups at each end (us)."""
    events: list[Json] = []
    for number, at_us in enumerate(ends_us):
        for group, ranks in enumerate(groups):
            if rank not in ranks:
                continue
            args = {
                "Collective name": "allreduce",
                "In msg nelems": 1,
                "Out msg nelems": 1,
                "dtype": "Float",
                "Group size": len(ranks),
                "Process Group Name": str(group),
                "Process Group Ranks": str(ranks),
                "Seq": number,
            }
            event = {
                "ph": "X",
                "cat": "kernel",
                "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                "pid": 0,
                "tid": 7,
                "ts": at_us[group] - 800,
                "dur": 800,
                "args": args,
            }
            events.append(event)
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": BASE_NS,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world_size},
        "traceEvents": events,
        **header,
    }


def work(num_steps: int, step_s: float, slow_from: int) -> list[Json]:
    """Steps with a kernel that takes a tenth of each, three times as long from one step on."""
    events: list[Json] = []
    for step in range(num_steps):
        begin_us, whole_us = step * step_s * 1e6, step_s * 1e6
        dur_us = whole_us * (0.3 if step >= slow_from else 0.1)
        events += [
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "pid": 1,
                "tid": 1,
                "ts": begin_us,
                "dur": whole_us - 1,
            },
            {
                "ph": "X",
                "cat": "kernel",
                "name": "gemm",
                "pid": 0,
                "tid": 8,
                "ts": begin_us,
                "dur": dur_us,
            },
        ]
    return events


def write_job(
    folder: Path,
    groups: list[list[int]],
    *,
    ranks: list[int],
    world_size: int,
    num_steps: int = 40,
    step_s: float = 0.1,
    offset_us: dict[int, float] | None = None,
    drift: dict[int, float] | None = None,
    slow_rank: int | None = None,
    **header: Any,
) -> Path:
    """Files of some ranks of a job; rank r shows true - offset - drift x true.

    Where a rank is to be slow, all have steps, and it computes longer from the sixth on.
    """
    random = np.random.default_rng(7)
    ends_us = (np.arange(num_steps)[:, None] + random.random((num_steps, len(groups)))) * step_s
    ends_us = np.sort(ends_us * 1e6, axis=1)
    folder.mkdir()
    for rank in ranks:
        seen_us = ends_us + random.normal(0, 5, ends_us.shape)
        seen_us = seen_us * (1 - (drift or {}).get(rank, 0)) - (offset_us or {}).get(rank, 0)
        content = profile(rank, world_size, groups, seen_us.round(3).tolist(), **header)
        if slow_rank is not None:
            slow_from = 6 if rank == slow_rank else num_steps
            content["traceEvents"] += work(num_steps, step_s, slow_from)
        (folder / f"rank{rank}.json").write_text(json.dumps(content))
    return folder


DP_TP = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 4], [1, 5], [2, 6], [3, 7]]


def clocks(run: Run) -> dict[int, dict[str, Any]]:
    """Rows of the index: what everything that compares ranks uses."""
    rows = run.index_rows("SELECT * FROM clock_offsets ORDER BY rank")
    return {row["rank"]: row for row in rows}


def dlrm8(folder: Path, late_us: dict[int, float]) -> Path:
    """The eight profiles with some ranks' times moved."""
    folder.mkdir()
    with tarfile.open(TRACES / "kineto/dlrm8.tar.gz") as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            if file is None:
                continue
            content = file.read()
            content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
            trace = json.loads(content)
            by_us = late_us.get(trace["distributedInfo"]["rank"], 0)
            for event in trace["traceEvents"]:
                if "ts" in event and event.get("ph") != "M":
                    event["ts"] += by_us
            (folder / Path(member.name).name.removesuffix(".gz")).write_text(json.dumps(trace))
    return folder


@needs_traces
def test_90_ms_put_into_one_rank_come_out(tmp_path: Path) -> None:
    with open_any(dlrm8(tmp_path / "as_it_is", {})) as run:
        before = clocks(run)
        named = run.ask("late_ranks").to_pylist()
    with open_any(dlrm8(tmp_path / "moved", {3: 90_000})) as run:
        by_rank = clocks(run)
        assert {row["method"] for row in by_rank.values()} == {"matched_collectives"}
        assert abs(by_rank[3]["offset_ns"] + 90 * MS) <= by_rank[3]["err_ns"] <= 20 * US
        for rank in set(by_rank) - {3}:
            assert by_rank[rank]["offset_ns"] == pytest.approx(before[rank]["offset_ns"], abs=US)
        # who made others wait is what it was
        again = run.ask("late_ranks").to_pylist()
        assert [row["rank"] for row in again] == [row["rank"] for row in named] == [7, 5, 4]
        assert again[0]["wait_caused_ms"] == pytest.approx(named[0]["wait_caused_ms"], rel=0.01)
        assert info(run)["clock"] == {
            "kind": "absolute",
            "max_err_ns": max(row["err_ns"] for row in by_rank.values()),
            "method": "matched_collectives",
        }
        assert any("they differ by up to 89.99" in guess for guess in info(run)["guesses"])


def test_50_ppm_of_a_run_of_eleven_minutes_come_out(tmp_path: Path) -> None:
    sizes: Json = {"ranks": list(range(8)), "world_size": 8, "num_steps": 330, "step_s": 2.0}
    folder = write_job(
        tmp_path / "job", DP_TP, **sizes, offset_us={2: 700.0}, drift={5: 50e-6, 6: -3e-6}
    )
    with open_any(folder) as run:
        by_rank = clocks(run)
        guess = next(guess for guess in info(run)["guesses"] if "clocks of" in guess)
    for rank, true_ppb in ((5, 50_000), (6, -3_000), (1, 0), (2, 0)):
        row = by_rank[rank]
        half_span_s = 330
        # the stated error holds at both ends of the trace, so it bounds the drift, too
        assert abs(row["drift_ppb"] - true_ppb) * half_span_s <= row["err_ns"] <= 150 * US
        true_ns = (row["ts_ns"] - BASE_NS) * true_ppb * 1e-9 + (700 * US if rank == 2 else 0)
        assert row["offset_ns"] == pytest.approx(true_ns, abs=row["err_ns"])
    assert "rank 5 drifts most, by 50." in guess


ENDS_APART = """
SELECT step_of, max(apart_ns) AS apart_ns, max(shown_ns) AS shown_ns FROM (
    SELECT c.seq AS step_of, max(c.end_ns + s.shift_ns) - min(c.end_ns + s.shift_ns) AS apart_ns,
        max(c.end_ns) - min(c.end_ns) AS shown_ns
    FROM collectives c, LATERAL (SELECT o.offset_ns + CAST(
        o.drift_ppb * ((c.end_ns - o.ts_ns) / 1e9) AS BIGINT) AS shift_ns
        FROM clock_offsets o WHERE o.rank = c.rank) s
    GROUP BY c.group_id, c.seq)
GROUP BY step_of ORDER BY step_of
"""


def test_aligned_ends_agree_from_the_first_to_the_last_of_eleven_minutes(tmp_path: Path) -> None:
    """What pages compare: times of the store, brought together by its own clocks."""
    sizes: Json = {"ranks": list(range(8)), "world_size": 8, "num_steps": 330, "step_s": 2.0}
    folder = write_job(tmp_path / "job", DP_TP, **sizes, drift={5: 50e-6})
    with open_any(folder) as run:
        rows = run.sql(ENDS_APART).to_pylist()
        worst_ns = max(row["err_ns"] for row in clocks(run).values())
    assert len(rows) == 330
    assert rows[-1]["shown_ns"] > 30 * MS  # 50 ppm of 660 s are 33 ms
    noise_ns = 50 * US  # ends of the made job scatter by 5 us around the true one
    for row in (rows[0], rows[len(rows) // 2], rows[-1]):
        assert row["apart_ns"] <= 2 * worst_ns + noise_ns


def test_two_ranks_of_128_are_unaligned_and_a_problem_says_so(tmp_path: Path) -> None:
    groups = [list(range(128)), [0, 64], [64, 65]]
    folder = write_job(tmp_path / "job", groups, ranks=[0, 65], world_size=128)
    with open_any(folder) as run:
        assert clocks(run) == {}
        summary = info(run)
        assert summary["clock"] == {"kind": "absolute", "max_err_ns": None, "method": "none"}
        (problem,) = summary["problems"]
        assert "the clocks of ranks 0, 65 could not be compared" in problem
        assert run.ask("late_ranks").num_rows == 0
        assert {row["method"] for row in run.ask("clock_error").to_pylist()} == {None}


def test_one_file_of_eight_that_is_missing_costs_one_clock(tmp_path: Path) -> None:
    """Also where it is there and cannot be read."""
    sizes: Json = {"world_size": 8, "offset_us": {3: -90_000.0, 6: 250.0}}
    folder = write_job(tmp_path / "job", [list(range(8))], ranks=list(range(8)), **sizes)
    (folder / "rank2.json").write_bytes(b"\x93NUMPY" * 99)
    with open_any(folder) as run:
        by_rank = clocks(run)
        assert {row["method"] for row in by_rank.values()} == {"matched_collectives"}
        assert sorted(by_rank) == [0, 1, 3, 4, 5, 6, 7]
        for rank, true_us in ((3, -90_000), (6, 250), (7, 0)):
            assert (
                abs(by_rank[rank]["offset_ns"] - true_us * US) <= by_rank[rank]["err_ns"] <= 60 * US
            )
        (problem,) = run.problems
        assert "rank2.json" in problem
        assert any("members of 1 group are missing" in guess for guess in info(run)["guesses"])


def test_shifted_numbers_of_one_member_of_those_that_are_here_are_not_used(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", [list(range(8))], ranks=[0, 1, 2, 5, 6], world_size=8)
    path = folder / "rank5.json"
    trace = json.loads(path.read_text())
    for event, later in zip(trace["traceEvents"], trace["traceEvents"][1:], strict=False):
        event["ts"] = later["ts"]
    path.write_text(json.dumps(trace))
    with open_any(folder) as run:
        assert sorted(clocks(run)) == [0, 1, 2, 6]
        problems = " ".join(run.problems)
        assert "rank 5 saw its collectives end at other times than the other members" in problems
        assert "the clocks of rank 5 could not be compared" in problems


def test_a_rank_without_a_complete_group_is_unaligned_even_rank_0(tmp_path: Path) -> None:
    groups = [[0, 9], [1, 2], [2, 3]]
    folder = write_job(
        tmp_path / "job", groups, ranks=[0, 1, 2, 3], world_size=10, offset_us={3: -250.0}
    )
    with open_any(folder) as run:
        by_rank = clocks(run)
        assert sorted(by_rank) == [1, 2, 3]
        assert by_rank[3]["offset_ns"] == pytest.approx(-250 * US, abs=by_rank[3]["err_ns"])
        assert info(run)["clock"]["max_err_ns"] is None
        assert any("the clocks of rank 0 could not be compared" in text for text in run.problems)


def test_ranks_of_one_host_share_its_clock_where_nothing_else_is_known(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "a", [[0, 1, 2]], ranks=[0, 1], world_size=3, host_name="h")
    with open_any(folder) as run:
        assert {row["method"] for row in clocks(run).values()} == {"same_host"}
        assert info(run)["problems"] == []


def test_a_profile_that_began_later_is_left_out_and_reported(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", [[0, 1, 2]], ranks=[0, 1, 2], world_size=3)
    path = folder / "rank2.json"
    trace = json.loads(path.read_text())
    moved = [event["ts"] for event in trace["traceEvents"]]
    for event, ts in zip(trace["traceEvents"], [*moved[3:], *moved[:3]], strict=True):
        event["ts"] = ts
    path.write_text(json.dumps(trace))
    with open_any(folder) as run:
        assert sorted(clocks(run)) == [0, 1]
        problems = " ".join(run.problems)
        assert "rank 2 saw its collectives end at other times than the other members" in problems
        assert "the clocks of rank 2 could not be compared" in problems


def test_one_rank_alone_keeps_its_clock(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", [[0, 1]], ranks=[1], world_size=2)
    with open_any(folder) as run:
        assert clocks(run)[1]["method"] == "imported"
        assert run.problems == []


def test_ends_that_cannot_be_matched_cost_the_alignment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Path) -> None:
        raise UserError("collectives cannot be matched: no memory")

    monkeypatch.setattr("ingest.imports.matched_ends.matched_ends", fails)
    folder = write_job(tmp_path / "job", [[0, 1]], ranks=[0, 1], world_size=2)
    with open_run(import_paths([folder], tmp_path / "runs")) as run:
        assert clocks(run) == {}
        assert any("no memory" in problem for problem in run.problems)


def test_readers_alone_align_nothing(tmp_path: Path) -> None:
    """What the import step adds: without it clocks are taken as they are."""
    folder = write_job(
        tmp_path / "job", [[0, 1]], ranks=[0, 1], world_size=2, offset_us={1: 5_000.0}
    )
    with open_run(importer.import_paths([folder], tmp_path / "raw")) as run:
        assert {row["method"] for row in clocks(run).values()} == {"imported"}
    with open_run(import_paths([folder], tmp_path / "runs")) as run:
        assert clocks(run)[1]["offset_ns"] == pytest.approx(5 * MS, abs=clocks(run)[1]["err_ns"])
