"""Traces for Perfetto: what one holds, and that it reads back as the same spans."""

from __future__ import annotations

import json
import random
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import ingest.exports.perfetto as perfetto
from ingest.exports.perfetto import write_perfetto
from ingest.exports.window import Window
from ingest.imports.importer import import_paths
from ingest.readers import rankscope_trace
from ingest.run import Run, open_run
from sample_traces import RECORDED
from tests.folders import NO_TRACES, TRACES
from tests.reader_results import Imported
from tests.runs_builder import T0, RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import KINDS, MODES, TABLES

SLOW_RANK = RECORDED / "slow_rank"
KEPT = "rank, ts_ns, dur_ns, name, kind, track, step"
ALL = ", ".join(c.name for c in TABLES["spans"].columns if c.name != "attempt")
NAMES = (
    "aten::mm",
    "",
    " ",
    "größe 漢字 🚀",
    "\x00\x01\x1f\x7f",
    'quo"te\\back/slash',
    "line\nbreak\t",
    "</script>",
    "\u2028\u2029\ufeff",
    "x" * 5000,
    "},{",
    "ProfilerStep#3",
    "e\u0301",
)


def spans(run: Run, columns: str = ALL) -> list[dict[str, Any]]:
    return run.sql(f"SELECT {columns} FROM spans ORDER BY ALL").to_pylist()


def read_back(out: Path, runs: Path) -> Run:
    return open_run(import_paths([out], runs))


def random_run(folder: Path, seed: int) -> Path:
    """Spans with everything the schema allows, within the times a run can have."""
    rng = random.Random(seed)
    num_ranks = rng.randint(1, 5)
    layout = ParallelLayout.from_sizes(tp=num_ranks) if rng.random() < 0.5 else None
    hosts = [f"h{rank}" for rank in range(num_ranks)]
    run = RunBuilder(folder, num_ranks, layout, hosts=hosts)
    span_ns = rng.choice([50, 10**6, 10**12, 2**59])
    for _ in range(rng.randint(1, 300)):
        rank, step = rng.randrange(num_ranks), rng.randint(-1, 6)
        peer = rng.choice([-1, -1, rng.randrange(num_ranks)])
        run.add(
            "spans",
            rank,
            step,
            ts_ns=T0 + rng.randint(-span_ns, span_ns),
            dur_ns=rng.choice([0, 1, -1, -(2**40), rng.randint(-5, 1000), rng.randint(0, 2**50)]),
            cpu_ns=rng.choice([-1, 0, 2**50]),
            kind=rng.choice(KINDS),
            name=rng.choice(NAMES),
            track=rng.choice(["main", "steps", "stream 7", rng.choice(NAMES)]),
            depth=rng.randint(0, 2**15 - 1),
            microbatch=rng.randint(-1, 9),
            peer=peer,
            chunk=rng.randint(-1, 9),
            recompute=rng.random() < 0.1,
            group_id=rng.choice([0, 7, -(2**63), 2**63 - 1]),
            coll_seq=rng.randint(-1, 20),
            num_bytes=rng.choice([-1, 2**53 + 1]),
            mode=rng.choice(MODES),
            args=rng.choice([None, "", '{"a": 1}', "no JSON"]),
        )
    for rank in range(1, num_ranks):
        for _ in range(rng.randint(0, 3)):
            run.add(
                "clocks",
                rank,
                0,
                ts_ns=T0 + rng.randint(-span_ns, span_ns),
                offset_ns=rng.randint(-(10**9), 10**9),
                drift_ppb=rng.randint(-50_000, 50_000),
            )
        run.add(
            "memory",
            rank,
            rng.randint(-1, 6),
            ts_ns=T0 + rng.randint(-span_ns, span_ns),
            allocated=rng.choice([-1, 0, 2**53 + 1]),
            reserved=5,
            peak=7,
            retries=1,
            rss=-1,
        )
        run.add(
            "marks",
            rank,
            2,
            ts_ns=T0,
            kind="fault",
            text=rng.choice(NAMES),
            args=rng.choice(["", None]),
        )
    for step in range(6):
        run.step(0, step, step * 100.0, step * 100.0 + rng.choice([0, 50, 100]), loss=rng.random())
    run.rank_files()
    run.publish()
    return folder


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))]
)
def test_a_trace_reads_back_as_the_same_spans(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perfetto, "ROWS_AT_ONCE", random.Random(seed).choice([1, 7, 50, 10**6]))
    monkeypatch.setattr(rankscope_trace, "_MOST_HELD", random.Random(seed).choice([1, 10**6]))
    out = tmp_path / "out.json"
    with open_run(random_run(tmp_path / "run", seed)) as run:
        write_perfetto(run, Window(), out)
        events = json.loads(out.read_text())["traceEvents"]
        with read_back(out, tmp_path / "runs") as back:
            assert spans(back, KEPT) == spans(run, KEPT)
            assert spans(back) == spans(run)
            for text in (
                "SELECT * FROM steps ORDER BY ALL",
                "SELECT * FROM clocks ORDER BY ALL",
                "SELECT * FROM memory ORDER BY ALL",
                "SELECT * FROM marks ORDER BY ALL",
                "SELECT * FROM clock_offsets ORDER BY ALL",
            ):
                assert back.sql(text).to_pylist() == run.sql(text).to_pylist()
            assert back.layout() == run.layout()
            assert back.info["problems"] == []
    assert min(event.get("ts", 0) for event in events) >= 0  # Perfetto drops negative times


def test_the_recorded_job_comes_back_with_its_ranks_groups_and_steps(tmp_path: Path) -> None:
    shutil.copytree(SLOW_RANK, tmp_path / "run")
    out = tmp_path / "out.json"
    with open_run(tmp_path / "run") as run:
        written = write_perfetto(run, Window(), out)
        with read_back(out, tmp_path / "runs") as back:
            assert written.num_spans == len(spans(run)) > 10_000
            assert spans(back) == spans(run)
            assert back.layout() == run.layout()
            for text in (
                "SELECT * FROM steps ORDER BY ALL",
                "SELECT DISTINCT group_id, name, axis, ranks FROM groups ORDER BY ALL",
                "SELECT rank, world_size, host, device, pp, dp, tp FROM ranks ORDER BY ALL",
                "SELECT rank, step, compute_ns, exposed_comm_ns, window_ns FROM step_rollup"
                " ORDER BY ALL",
            ):
                assert back.sql(text).to_pylist() == run.sql(text).to_pylist(), text
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
def test_an_imported_profile_comes_back(tmp_path: Path) -> None:
    """Kernels that overlap in a stream, hundreds of tracks, times of real clocks."""
    imported = Imported(TRACES / "kineto/megatron_tp2", into=tmp_path / "runs")
    out = tmp_path / "out.json"
    with open_run(imported.folder) as run:
        write_perfetto(run, Window(), out)
        with read_back(out, tmp_path / "back") as back:
            assert spans(back) == spans(run) != []


def test_times_of_each_step_alone_are_laid_end_to_end_and_come_back(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 2, clock="per_step_relative")
    for step in range(3):
        for rank in range(2):
            builder.add("spans", rank, step, ts_ns=rank, dur_ns=100, kind="forward")
    builder.rank_files()
    builder.publish()
    out = tmp_path / "out.json"
    with open_run(tmp_path / "run") as run:
        write_perfetto(run, Window(), out)
        with read_back(out, tmp_path / "runs") as back:
            assert spans(back) == spans(run)
            assert back.info["clock"] == "per_step_relative"
    shown = {e["args"]["step"]: e["ts"] for e in whole(out) if e["pid"] == 0}
    assert shown[0] < shown[1] < shown[2]


def whole(out: Path) -> list[dict[str, Any]]:
    events = json.loads(out.read_text(), parse_float=Decimal)["traceEvents"]
    return [event for event in events if event["ph"] == "X" and event["cat"] != "step"]


def exported(folder: Path, out: Path, window: Window) -> list[dict[str, Any]]:
    with open_run(folder) as run:
        write_perfetto(run, window, out)
    return whole(out)


def test_a_process_is_a_rank_with_its_coordinates(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    exported(tmp_path / "run", tmp_path / "out.json", Window())
    trace = json.loads((tmp_path / "out.json").read_text())
    assert trace["otherData"]["rankscope"]["t0_ns"] == T0
    metadata = {(e["pid"], e["name"]): e["args"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert metadata[1, "process_name"] == {"name": "rank 1 tp1"}
    assert metadata[1, "process_sort_index"] == {"sort_index": 1}


def test_aligned_times_are_shown_and_every_nanosecond_is(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 2, hosts=["h0", "h1"])
    for rank in range(2):
        builder.add("spans", rank, 0, ts_ns=T0 + 1_234_567_891, dur_ns=1_001)
    builder.add("clocks", 1, 0, ts_ns=T0, offset_ns=5)
    builder.rank_files()
    builder.publish()
    events = exported(tmp_path / "run", tmp_path / "out.json", Window())
    shown = {e["pid"]: (e["ts"], e["dur"]) for e in events}
    assert shown[0] == (Decimal("1234567.891"), Decimal("1.001"))
    assert shown[1][0] == Decimal("1234567.896")


def test_flows_join_the_members_of_each_collective_and_message(tmp_path: Path) -> None:
    builder = two_rank_run(tmp_path / "run", num_steps=2)
    for rank, name in enumerate(("send", "recv")):
        builder.span(
            rank,
            1,
            "pp_comm",
            130 + rank,
            135,
            name=name,
            group_id=9,
            coll_seq=0,
            peer=1 - rank,
            track="other",
        )
    builder.span(0, 1, "tp_comm", 190, 195, group_id=7, coll_seq=99, depth=1)  # alone: no arrow
    builder.publish()
    events = exported(tmp_path / "run", tmp_path / "out.json", Window())
    begins = {(e["pid"], e["tid"], e["ts"]) for e in events}
    everything = json.loads((tmp_path / "out.json").read_text(), parse_float=Decimal)
    flows = [e for e in everything["traceEvents"] if e["ph"] in "stf"]
    assert [(e["id"], e["ph"], e["pid"]) for e in flows] == [
        (1, "s", 0),
        (1, "f", 1),
        (2, "s", 0),
        (2, "f", 1),
        (3, "s", 0),
        (3, "f", 1),
    ]
    assert all((e["pid"], e["tid"], e["ts"]) in begins for e in flows)
    assert [e["ts"] for e in flows[:2]] == [Decimal(20), Decimal(40)]
