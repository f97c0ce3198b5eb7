"""Ways out of a run: what a trace for Perfetto holds and reads back as, Parquet, CSV, windows."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import ingest.exports.perfetto as perfetto
from ingest.errors import UserError
from ingest.exports.perfetto import write_perfetto
from ingest.exports.tables import write_csv, write_parquet
from ingest.exports.window import Window
from ingest.imports.importer import import_paths, open_any
from ingest.readers import rankscope_trace, reader_of
from ingest.readers.parsing.sources import sources
from ingest.run import Run, open_run
from sample_traces import RECORDED
from tests.folders import TRACES
from tests.frame_runs import frame_row
from tests.reader_results import NO_TRACES, Imported
from tests.runs_builder import T0, US, RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import KINDS, MODES, SCHEMA_VERSION, TABLES

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


@pytest.mark.parametrize("seed", range(6))
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


def test_memory_is_a_counter_and_a_mark_an_instant(tmp_path: Path) -> None:
    builder = two_rank_run(tmp_path / "run", num_steps=2)
    builder.add("clocks", 1, 0, ts_ns=T0, offset_ns=5 * US)
    for step in range(2):
        builder.add(
            "memory",
            1,
            step,
            ts_ns=T0 + (100 * step + 50) * US + 1,
            allocated=10 + step,
            reserved=-1,
            rss=-1,
        )
    builder.add("marks", 0, 1, ts_ns=T0 + 120 * US, kind="fault", text="a <fault>")
    builder.publish()
    with open_run(builder.folder) as run:
        write_perfetto(run, Window(), tmp_path / "all.json")
        write_perfetto(run, Window(ranks=(1,), steps=(0, 0)), tmp_path / "part.json")
    events = json.loads((tmp_path / "all.json").read_text(), parse_float=Decimal)["traceEvents"]
    counters = [(e["pid"], e["ts"], e["args"]) for e in events if e["ph"] == "C"]
    assert counters == [
        (1, Decimal("55.001"), {"allocated": 10}),
        (1, Decimal("155.001"), {"allocated": 11}),
    ]
    (mark,) = [e for e in events if e["ph"] == "i"]
    assert (mark["pid"], mark["ts"], mark["name"]) == (0, Decimal(120), "a <fault>")
    part = json.loads((tmp_path / "part.json").read_text())["traceEvents"]
    assert [e["args"] for e in part if e["ph"] in ("C", "i")] == [{"allocated": 10}]


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
    told = {(e["pid"], e["name"]): e["args"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert told[1, "process_name"] == {"name": "rank 1 tp1"}
    assert told[1, "process_sort_index"] == {"sort_index": 1}


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


def test_spans_that_overlap_without_being_nested_get_threads_of_their_own(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 1)
    for begin_us, end_us in ((0, 10), (2, 5), (5, 15), (10, 20), (20, 30)):
        builder.span(0, 0, "kernel", begin_us, end_us, track="stream 7")
    builder.rank_files()
    builder.publish()
    events = exported(tmp_path / "run", tmp_path / "out.json", Window())
    by_thread: dict[int, list[tuple[Decimal, Decimal]]] = {}
    for e in events:
        by_thread.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
    assert len(by_thread) == 2
    for found in by_thread.values():
        for a, b in found:
            for c, d in found:
                assert b <= c or d <= a or (a <= c and d <= b) or (c <= a and b <= d)


@pytest.mark.parametrize(
    ("window", "begins_us"),
    [
        (Window(ranks=(1,)), {1: [0, 10, 40, 50, 90, 100, 110, 140, 150, 190]}),
        (Window(ranks=(0,), steps=(1, 1)), {0: [100, 110, 120, 150, 190]}),
        (Window(t=(91 * US, 99 * US)), {0: [90], 1: [90]}),
    ],
)
def test_a_window_is_what_was_asked_for(
    window: Window, begins_us: dict[int, list[int]], tmp_path: Path
) -> None:
    two_rank_run(tmp_path / "run", num_steps=2)
    found: dict[int, list[int]] = {}
    for event in exported(tmp_path / "run", tmp_path / "out.json", window):
        found.setdefault(event["pid"], []).append(int(event["ts"]))
    assert found == begins_us
    with open_run(tmp_path / "run") as run:
        assert write_parquet(run, "spans", window, tmp_path / "a.parquet") == sum(
            map(len, begins_us.values())
        )


def test_a_window_of_time_is_on_the_aligned_clock_in_tables_too(tmp_path: Path) -> None:
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    builder.hosts = ["h0", "h1"]
    builder.rank_files()
    builder.add("clocks", 1, 0, ts_ns=T0, offset_ns=1000 * US)
    builder.publish()
    window = Window(t=(1000 * US, 1005 * US))
    with open_run(tmp_path / "run") as run:
        write_parquet(run, "spans", window, tmp_path / "a.parquet")
        write_perfetto(run, window, tmp_path / "a.json")
    assert pq.read_table(tmp_path / "a.parquet")["rank"].to_pylist() == [1]
    assert [event["pid"] for event in whole(tmp_path / "a.json")] == [1]


def test_a_window_without_spans_says_so_and_leaves_no_file(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    with open_run(tmp_path / "run") as run, pytest.raises(UserError, match="no spans there"):
        write_perfetto(run, Window(steps=(50, 60)), tmp_path / "out.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    with open_run(tmp_path / "run") as run, pytest.raises(UserError, match="cannot be written"):
        write_csv(run, "spans", Window(), tmp_path / "nowhere" / "out.csv")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A copy of the recorded job, to be read only."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    shutil.copytree(SLOW_RANK, folder)
    with open_run(folder) as run:
        yield run


@pytest.mark.parametrize("table", list(TABLES))
def test_every_table_comes_out_as_parquet_with_its_schema(
    table: str, recorded: Run, tmp_path: Path
) -> None:
    num_rows = write_parquet(recorded, table, Window(), tmp_path / "a.parquet")
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.schema.equals(TABLES[table].schema)
    assert found.schema.metadata[b"rankscope.table"] == table.encode()
    text = f"SELECT count(*) AS n FROM {table}"
    assert recorded.sql(text, with_content=True).to_pylist() == [{"n": num_rows}]
    assert write_csv(recorded, table, Window(), tmp_path / "a.csv") == num_rows


def test_csv_keeps_every_value(tmp_path: Path) -> None:
    with open_run(random_run(tmp_path / "run", 3)) as run:
        write_csv(run, "spans", Window(), tmp_path / "a.csv")
        expected = [{k: str(v) for k, v in row.items()} for row in spans(run, "rank, ts_ns, name")]
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        found = [{k: row[k] for k in ("rank", "ts_ns", "name")} for row in csv.DictReader(file)]
    key = str
    assert sorted(found, key=key) == sorted(expected, key=key)


def test_csv_has_the_numbers_of_frames_in_base64(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 1)
    builder.add("frames", 0, 1, **frame_row(b"\xff\x00"))
    builder.publish()
    with open_run(builder.folder) as run:
        assert write_csv(run, "frames", Window(), tmp_path / "a.csv") == 1
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["what"], row["shape"], row["data"]) == ("mlp", "2", "/wA=")


def test_a_trace_of_a_newer_rankscope_is_refused(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    exported(tmp_path / "run", tmp_path / "out.json", Window())
    text, ours = (tmp_path / "out.json").read_text(), f'"schema":"{SCHEMA_VERSION}"'
    assert text.count(ours) == 1
    (tmp_path / "new.json").write_text(text.replace(ours, '"schema":"2.0"', 1))
    with pytest.raises(UserError, match="upgrade rankscope"):
        import_paths([tmp_path / "new.json"], tmp_path / "runs")


def test_it_is_known_by_its_content_only(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    exported(tmp_path / "run", tmp_path / "trace.bin", Window())
    (source,) = sources([tmp_path / "trace.bin"], lambda _: None)
    reader = reader_of(source)
    assert reader is not None
    assert reader.FORMAT.name == "rankscope_trace"


def test_damage_costs_what_it_hits(tmp_path: Path) -> None:
    """A rank beyond all limits, a kind that is none, numbers that do not fit, a cut end."""
    two_rank_run(tmp_path / "run", num_steps=1)
    exported(tmp_path / "run", tmp_path / "out.json", Window())
    lines = (tmp_path / "out.json").read_text().split("\n")
    good = next(line for line in lines if '"optimizer"' in line)
    bad = [
        good.replace('"pid":0', '"pid":2000000000'),
        good.replace('"optimizer"', '"nonsense"'),
        good.replace('"step":0', '"step":1e400'),
        good.replace('"step":0', f'"step":{2**70}'),
        good.replace('"step":0', '"step":0,"depth":40000'),
        good.replace('"ts":', '"ts":-1e30,"x":'),
    ]
    at = lines.index(good)
    damaged = [*lines[:at], *bad, *lines[at:-2]]
    (tmp_path / "bad.json").write_text("\n".join(damaged)[:-20])
    imported = Imported(tmp_path / "bad.json", into=tmp_path / "runs")
    assert set(imported.ranks) == {0, 1}
    assert 0 < imported.table("spans").num_rows < 10
    told = " ".join(imported.problems)
    assert "cut off" in told
    assert "damaged events left out" in told
    assert "3 events of no known kind" in told


def test_a_second_file_of_a_rank_is_left_out_and_told(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    exported(tmp_path / "run", tmp_path / "a.json", Window(ranks=(0,)))
    exported(tmp_path / "run", tmp_path / "b.json", Window())
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    imported = Imported(*files, into=tmp_path / "runs")
    assert set(imported.ranks) == {0, 1}
    assert len(imported.problems) == 1
    assert "shows rank 0, as" in imported.problems[0]
    with open_any(imported.folder) as back, open_run(tmp_path / "run") as run:
        assert spans(back) == spans(run)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (b'"axes":{"tp":922337203685477580}', "a layout of 922337203685477580 ranks"),
        (b'"axes":{"tp":0}', "is of no use"),
    ],
)
def test_a_head_that_claims_too_much_is_refused(tmp_path: Path, change: bytes, says: str) -> None:
    out = tmp_path / "out.json"
    exported(two_rank_run(tmp_path / "run").folder, out, Window())
    head, axes, rest = re.split(rb'("axes":\{[^}]*\})', out.read_bytes(), maxsplit=1)
    assert axes
    out.write_bytes(head + change + rest)
    with pytest.raises(UserError, match=says):
        import_paths([out], tmp_path / "runs")


def test_a_head_without_any_event_is_a_sentence(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    exported(two_rank_run(tmp_path / "run").folder, out, Window())
    head, _, _ = out.read_bytes().partition(b'"traceEvents":[')
    out.write_bytes(head + b'"traceEvents":[]}')
    with pytest.raises(UserError, match="no event could be read"):
        import_paths([out], tmp_path / "runs")
