"""torch.profiler traces: hand-built ones for every trap, and real ones against counted facts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import UserError
from ingest.imports.importer import import_paths
from tests.folders import TRACES
from trace_hooks.schema import TABLES, SegmentName

BASE_NS = 1719853884000000000
TS = 4212936054935.310  # us after BASE_NS

Json = dict[str, Any]


def event(name: str, ts: float, dur: float, cat: str = "cpu_op", **more: Any) -> Json:
    """A complete event at TS + ts us."""
    place = {"pid": 0, "tid": 7} if cat in ("kernel", "gpu_memcpy") else {"pid": 42, "tid": 42}
    return {"ph": "X", "cat": cat, "name": name, "ts": TS + ts, "dur": dur, **place, **more}


def step(number: int, ts: float, dur: float, cat: str = "user_annotation") -> Json:
    return event(f"ProfilerStep#{number}", ts, dur, cat)


def collective(op: str, **more: Any) -> Json:
    """Arguments PyTorch writes about a collective of group "7" over ranks 0 and 1."""
    return {
        "Collective name": op,
        "In msg nelems": 100,
        "Out msg nelems": 50,
        "dtype": "BFloat16",
        "Group size": 2,
        "Process Group Name": "7",
        "Process Group Ranks": "[0, 1]",
        **more,
    }


def write(path: Path, events: list[Json], rank: int | None = 0, **header: Any) -> Path:
    """A profiler file; its times have three decimals, as PyTorch writes them."""
    document = {"schemaVersion": 1, "deviceProperties": []}
    if rank is not None:
        document["distributedInfo"] = {"rank": rank, "world_size": 2, "backend": "nccl"}
    document |= {"traceEvents": events, "baseTimeNanoseconds": BASE_NS, **header}
    document = {key: value for key, value in document.items() if value is not None}
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(document))
    return path


class Imported:
    """What an import wrote."""

    def __init__(self, *paths: Path, into: Path) -> None:
        self.folder = import_paths(paths, into)
        self.info = json.loads((self.folder / "run.json").read_text())
        ranks = [json.loads(path.read_text()) for path in (self.folder / "ranks").iterdir()]
        self.ranks = {info["rank"]: info for info in ranks}

    def table(self, name: str) -> pa.Table:
        files = [
            path
            for path in sorted((self.folder / "segments").iterdir())
            if (segment := SegmentName.parse(path.name)) and segment.table == name
        ]
        tables = [pq.read_table(path) for path in files] or [TABLES[name].schema.empty_table()]
        return pa.concat_tables(tables)

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        table = self.table(name)
        return list(zip(*(table[column].to_pylist() for column in columns), strict=True))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_times_are_exact_and_every_row_is_of_the_schema(tmp_path: Path, runs: Path) -> None:
    path = write(tmp_path / "a.json", [event("aten::mm", 0, 12.345), step(6, -10, 100)])
    path.write_text(path.read_text().replace("12.345", '12.345,"x":NaN'))  # json's own slip
    run = Imported(path, into=runs)
    assert run.rows("spans", "ts_ns", "dur_ns", "kind", "step", "mode") == [
        (BASE_NS + 4212936054935310, 12345, "host", 6, "imported")
    ]
    assert run.rows("steps", "step", "start_ns", "dur_ns") == [
        (6, BASE_NS + 4212936054925310, 100_000)
    ]
    for name in ("spans", "steps", "clocks"):
        assert run.table(name).schema.equals(TABLES[name].schema)
    assert run.info["clock"] == "absolute"
    assert run.info["created_ns"] == BASE_NS + 4212936054925310  # the step began first


def test_absolute_microseconds_of_older_files(tmp_path: Path, runs: Path) -> None:
    events = [{**event("a", 0, 1), "ts": 1623142623460016}]
    run = Imported(write(tmp_path / "a.json", events, baseTimeNanoseconds=None), into=runs)
    assert run.rows("spans", "ts_ns") == [(1623142623460016000,)]
    assert run.info["clock"] == "absolute"


def test_times_without_any_zero_are_of_an_unknown_clock(tmp_path: Path, runs: Path) -> None:
    events = [{**event("a", 0, 1), "ts": 100}]
    run = Imported(write(tmp_path / "a.json", events, baseTimeNanoseconds=None), into=runs)
    assert run.info["clock"] == "unknown"


def test_a_step_counts_once_and_covers_nothing(tmp_path: Path, runs: Path) -> None:
    events = [
        step(6, 0, 100),
        step(6, 20, 90, "gpu_user_annotation"),
        event("PyTorch Profiler (0)", 0, 100, "Trace", pid="Spans", tid="PyTorch Profiler"),
        event("early", -5, 1),
        event("kernel after the host's end", 120, 5, "kernel"),
    ]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert run.rows("steps", "step", "dur_ns") == [(6, 100_000)]
    assert run.rows("spans", "name", "step") == [("early", -1), ("kernel after the host's end", 6)]
    assert run.info["events_per_rank"] == {"0": 5}


def test_kinds_tracks_and_depths(tmp_path: Path, runs: Path) -> None:
    events = [
        event("Optimizer.step#Adam.step", 0, 50, "user_annotation"),
        event("aten::add", 10, 5),
        event("enumerate(DataLoader)#_Iter.__next__", 60, 5, "user_annotation"),
        event("## backward ##", 70, 5, "user_annotation"),
        event("void gemm<float>(int)", 20, 10, "kernel"),
        event("void overlapping<float>(int)", 25, 10, "Kernel", tid="stream 7", pid=0),
        event("void overlapping<float>(int)", 25, 10, "kernel"),
        event("Memcpy HtoD", 80, 1, "gpu_memcpy", args={"bytes": 4096}),
    ]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert run.rows("spans", "kind", "track", "depth", "num_bytes") == [
        ("optimizer", "thread 42", 0, -1),
        ("host", "thread 42", 1, -1),
        ("kernel", "GPU 0 stream 7", 0, -1),
        ("kernel", "GPU 0 stream 7", 0, -1),  # its pid and tid are written in another way
        ("kernel", "GPU 0 stream 7", 1, -1),
        ("data_wait", "thread 42", 0, -1),
        ("backward", "thread 42", 0, -1),
        ("memcpy", "GPU 0 stream 7", 0, 4096),
    ]


def _two_ranks(tmp_path: Path, delay: float) -> list[Path]:
    paths = []
    for rank in (0, 1):
        late = rank * delay
        events = [
            event("record_param_comms", late - 5, 3, args=collective("allreduce")),
            event("record_param_comms", late + 45, 3, args=collective("_allgather_base")),
            event("record_param_comms", late + 60, 3, args=collective("wait")),
            event(
                "ncclDevKernel_AllReduce_Sum_bf16", late, 30, "kernel", args=collective("allreduce")
            ),
            event("a_name_of_its_own", 50 + late, 10, "kernel", args=collective("_allgather_base")),
        ]
        paths.append(write(tmp_path / f"x{rank}.json", events, rank))
    return paths


def test_collectives_have_one_identity_on_all_members(tmp_path: Path, runs: Path) -> None:
    run = Imported(*_two_ranks(tmp_path, 8.0), into=runs)
    found = run.table("collectives").to_pylist()
    assert len({row["group_id"] for row in found}) == 1
    assert [(r["rank"], r["seq"], r["op"], r["dtype"], r["num_bytes"]) for r in found] == [
        (rank, seq, op, "bfloat16", 200)
        for rank in (0, 1)
        for seq, op in ((0, "all_reduce"), (1, "all_gather"))
    ]
    assert {row["start_ns"] - row["enqueue_ns"] for row in found} == {5000}
    assert {row["state"] for row in found} == {"completed"}
    starts = {(row["rank"], row["seq"]): row["start_ns"] for row in found}
    assert starts[1, 0] - starts[0, 0] == 8000  # the late rank
    (group, other) = run.table("groups").to_pylist()
    assert (group["ranks"], group["name"], group["axis"]) == ([0, 1], "7", "world")
    assert group["group_id"] == other["group_id"] == found[0]["group_id"]
    spans = [s for s in run.table("spans").to_pylist() if s["group_id"]]
    assert {(s["kind"], s["coll_seq"], s["num_bytes"]) for s in spans} == {
        ("other_comm", 0, 200),
        ("other_comm", 1, 200),
    }


def test_point_to_point_is_numbered_per_pair(tmp_path: Path, runs: Path) -> None:
    group = {"Process Group Name": "pp", "Process Group Ranks": "[0, 1]", "Seq": 77}
    for rank, op, end in ((0, "send", {"Dst Rank": 1}), (1, "recv", {"Src Rank": 0})):
        args = {**collective(op), **group, **end}
        events = [event("ncclDevKernel_SendRecv", ts, 5, "kernel", args=args) for ts in (0, 20)]
        write(tmp_path / "in" / f"rank{rank}.json", events, rank)
    run = Imported(tmp_path / "in", into=runs)
    assert run.rows("collectives", "rank", "op", "peer", "seq", "num_bytes") == [
        (0, "send", 1, 0, 200),
        (0, "send", 1, 1, 200),
        (1, "recv", 0, 0, 100),
        (1, "recv", 0, 1, 100),
    ]


def test_axes_and_layout_where_the_groups_name_them(tmp_path: Path, runs: Path) -> None:
    def info(rank: int) -> Json:
        tp = [rank // 2 * 2, rank // 2 * 2 + 1]
        dp = [rank % 2, rank % 2 + 2]
        configs = [
            {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3]},
            {"pg_name": "1", "pg_desc": "mesh_dp", "ranks": dp},
            {"pg_name": "2", "pg_desc": "mesh_tp", "ranks": str(tp)},  # text, as on demand
        ]
        return {"rank": rank, "world_size": 4, "pg_config": configs}

    args = {**collective("allreduce"), "Process Group Name": "2"}
    del args["Process Group Ranks"]
    for rank in range(4):
        events = [event("ncclDevKernel_AllReduce", 0, 5, "kernel", args=args)]
        write(tmp_path / "in" / f"{rank}.json", events, None, distributedInfo=info(rank))
    run = Imported(tmp_path / "in", into=runs)
    assert run.ranks[3]["layout"]["axes"] == {"dp": 2, "tp": 2}
    assert run.ranks[2]["coords"] == {"dp": 1, "tp": 0}
    assert set(run.rows("groups", "axis")) == {("tp",)}
    assert set(run.rows("spans", "kind")) == {("tp_comm",)}
    assert run.info["guesses"] == []


def test_no_layout_is_invented(tmp_path: Path, runs: Path) -> None:
    configs = [{"pg_name": "1", "pg_desc": "mesh_tp", "ranks": [0, 1]}]  # half of the world
    info = {"rank": 0, "world_size": 4, "pg_config": configs}
    path = write(tmp_path / "a.json", [event("a", 0, 1)], None, distributedInfo=info)
    run = Imported(path, into=runs)
    assert run.ranks[0]["layout"] is None
    assert any("layout is unknown" in guess for guess in run.info["guesses"])


def test_ranks_from_names_folders_and_what_is_left(tmp_path: Path, runs: Path) -> None:
    write(tmp_path / "in" / "x" / "rank-3.host.json", [event("a", 0, 1)], None)
    write(tmp_path / "in" / "x" / "worker5.17.pt.trace.json", [event("b", 0, 1)], None)
    write(tmp_path / "in" / "2" / "trace.json", [event("c", 0, 1)], None)
    write(tmp_path / "in" / "x" / "unnamed.json", [event("d", 0, 1)], None)
    run = Imported(tmp_path / "in", into=runs)
    assert sorted(run.rows("spans", "rank", "name")) == [(0, "d"), (2, "c"), (3, "a"), (5, "b")]
    guesses = " ".join(run.info["guesses"])
    assert "rank-3.host.json: rank 3 is taken from its name" in guesses
    assert "unnamed.json names no rank" in guesses


def test_two_files_of_one_rank(tmp_path: Path, runs: Path) -> None:
    write(tmp_path / "in" / "a.json", [event("a", 0, 1), step(1, 0, 10)])
    write(tmp_path / "in" / "b.json", [event("b", 50, 1), step(2, 50, 10)])
    write(tmp_path / "in" / "c.json", [event("c", 5, 1), step(1, 5, 10)])
    run = Imported(tmp_path / "in", into=runs)
    assert sorted(run.rows("spans", "name", "step")) == [("a", 1), ("b", 2)]
    assert run.info["events_per_rank"] == {"0": 4}
    (problem,) = run.info["problems"]
    assert "c.json: says it is rank 0" in problem
    assert any("other steps of the same rank 0" in guess for guess in run.info["guesses"])


def test_communication_without_a_group(tmp_path: Path, runs: Path) -> None:
    events = [
        event("nccl:all_to_all", 0, 1, "user_annotation"),
        event("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWork*)", 4, 10, "kernel"),
    ]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert run.rows("collectives", "op", "seq") == [("all_to_all", 0)]
    (enqueue_ns, start_ns) = run.rows("collectives", "enqueue_ns", "start_ns")[0]
    assert start_ns - enqueue_ns == 4000
    assert run.rows("groups", "ranks") == [([0, 1],)]
    assert any("taken as one group of 2 ranks" in guess for guess in run.info["guesses"])


def test_enqueued_is_all_that_calls_without_kernels_tell(tmp_path: Path, runs: Path) -> None:
    calls = [event("nccl:all_reduce", 0, 1, "user_annotation")]
    blocking = [event("gloo:all_reduce", 0, 7, "user_annotation")]
    nccl = Imported(write(tmp_path / "a.json", calls), into=runs)
    assert nccl.rows("collectives", "state", "end_ns") == [("enqueued", -1)]
    gloo = Imported(write(tmp_path / "b.json", blocking), into=runs)
    ((state, start_ns, end_ns),) = gloo.rows("collectives", "state", "start_ns", "end_ns")
    assert (state, end_ns - start_ns) == ("completed", 7000)
    assert gloo.rows("spans", "kind") == [("other_comm",)]


def test_strange_events_cost_only_themselves(tmp_path: Path, runs: Path) -> None:
    path = write(tmp_path / "a.json", [event("good", 0, 1), event("also good", 5, 1)])
    strange = [
        '{"ph": "X", "cat": "cpu_op", "name": "no time", "ts": NaN, "dur": 1}',
        '{"ph": "X", "cat": "cpu_op", "name": "text", "ts": "4212936054937.000", "dur": "2", '
        '"pid": "x", "tid": [1]}',
        '{"ph": "X", "name": "twice", "name": "line\nbreak", "ts": 4212936054938.5, "dur": 1, '
        '"pid": 42, "tid": 99999999999999999999999}',
        "null",
        '{"ph": "X", "name": broken}',
    ]
    text = path.read_text().replace(
        '"traceEvents": [', '"traceEvents": [' + ",".join(strange) + ","
    )
    path.write_text(text)
    run = Imported(path, into=runs)
    assert run.rows("spans", "name", "dur_ns") == [
        ("good", 1000),
        ("text", 2000),
        ("line\nbreak", 1000),
        ("also good", 1000),
    ]
    assert run.info["events_per_rank"] == {"0": 7}
    problems = " ".join(run.info["problems"])
    assert "2 damaged events left out" in problems
    assert "1 events without a readable time left out" in problems


def test_absurd_values_are_damage_not_a_crash(tmp_path: Path, runs: Path) -> None:
    huge = 10**30
    args = {
        **collective("send"),
        "Dst Rank": huge,
        "Seq": huge,
        "In msg nelems": huge,
        "Process Group Ranks": "[0, 1, ",
        "Group size": huge,
        "Global rank start": 0,
        "Global rank stride": 1,
    }
    events = [
        event("good", 0, 1),
        {**event("far", 0, 1), "ts": 9 * 10**15},
        event("ncclDevKernel_SendRecv", 1, 1, "kernel", args=args),
        event("Memcpy", 3, 1, "gpu_memcpy", args={"bytes": huge}),
        step(10**25, 0, 5),
    ]
    path = write(
        tmp_path / "rank-1.json",
        events,
        None,
        distributedInfo={"rank": huge, "world_size": huge, "pg_config": [{"ranks": "[" * 10**5}]},
    )
    deep = '{"ph": "X", "name": "deep", "args": ' + "[" * 10**5 + "]" * 10**5 + "}"
    path.write_text(path.read_text().replace('"traceEvents": [', f'"traceEvents": [{deep},'))
    run = Imported(path, into=runs)
    assert [name for (name,) in run.rows("spans", "name")][:2] == [
        "good",
        "ProfilerStep#1" + "0" * 25,
    ]
    assert run.rows("collectives", "peer", "num_bytes") == [(-1, -1)]
    assert run.ranks[1]["world_size"] == -1
    assert set(run.rows("spans", "num_bytes")) == {(-1,)}


def test_a_cut_file_keeps_what_can_be_read(tmp_path: Path, runs: Path) -> None:
    events = [event(f"op {i}", i, 0.5) for i in range(3000)]
    whole = gzip.compress(write(tmp_path / "rank-1.json", events, None).read_bytes())
    path = tmp_path / "rank-1.json.gz"
    path.write_bytes(whole[: len(whole) // 2])
    run = Imported(path, into=runs)
    assert 500 < run.table("spans").num_rows < 3000
    assert set(run.rows("spans", "rank")) == {(1,)}
    assert any("gzip is cut off after" in problem for problem in run.info["problems"])
    assert any("cut off at byte" in problem for problem in run.info["problems"])


def test_one_bad_file_of_many_stops_nothing(tmp_path: Path, runs: Path) -> None:
    write(tmp_path / "in" / "a.json", [event("a", 0, 1)])
    (tmp_path / "in" / "broken.json.gz").write_bytes(b"\x1f\x8b\x08garbage")
    (tmp_path / "in" / "notes.txt").write_text("slow since Tuesday")
    (tmp_path / "in" / "empty.json").write_text("")
    run = Imported(tmp_path / "in", into=runs)
    assert run.rows("spans", "name") == [("a",)]
    assert len(run.info["problems"]) == 3
    assert any("notes.txt is plain text" in problem for problem in run.info["problems"])


def _facts() -> dict[str, list[Json] | None]:
    path = TRACES / "facts.json"
    if not path.is_file():
        return {}
    facts = json.loads(path.read_text())
    return {name: f["facts"] for name, f in facts.items() if name.startswith("kineto/")}


REAL = _facts()


@pytest.mark.skipif(not REAL, reason="the shared real traces (../shared/traces) are not here")
@pytest.mark.parametrize("name", REAL or ["none"])
def test_real_files_against_counted_facts(name: str, runs: Path) -> None:
    facts = REAL[name]
    if facts is None:
        with pytest.raises(UserError, match=r"execution trace|memory timeline"):
            import_paths([TRACES / name], runs)
        return
    run = Imported(TRACES / name, into=runs)
    assert sorted(run.info["events_per_rank"].values()) == sorted(fact["n"] for fact in facts)
    steps = sorted({number for fact in facts for number in fact["steps"]})
    assert sorted({number for (number,) in run.rows("steps", "step")}) == steps
    for fact in facts:
        if fact.get("rank") is not None:
            info = run.ranks[fact["rank"]]
            assert info["world_size"] == (fact["world_size"] or -1)
            assert run.info["events_per_rank"][str(fact["rank"])] == fact["n"]
    assert run.info["problems"] == []
    counted = sum(fact["gpu"]["events"] for fact in facts if "gpu" in fact)
    on_gpu = [
        kind
        for track, kind in run.rows("spans", "track", "kind")
        if track.startswith("GPU") and not track.endswith("waits")
    ]
    kernels = len(on_gpu) - on_gpu.count("memcpy")
    # the facts do not count copies where their category has a capital letter (PyTorch 1.8)
    assert counted == (kernels if "resnet50" in name else len(on_gpu))


@pytest.mark.skipif(not REAL, reason="the shared real traces (../shared/traces) are not here")
@pytest.mark.parametrize(
    ("name", "last", "of"),
    [
        ("dlrm8.tar.gz", 7, {"all_to_all": (4, 5), "all_reduce": (1, 3)}),
        ("megatron_tp2", 0, {"all_reduce": (13, 13)}),
    ],
)
def test_the_late_rank_of_real_jobs(
    name: str, last: int, of: dict[str, tuple[int, int]], runs: Path
) -> None:
    run = Imported(TRACES / "kineto" / name, into=runs)
    arrivals: dict[tuple[int, int, str], dict[int, int]] = {}
    columns = ("group_id", "seq", "op", "rank", "start_ns")
    for group_id, seq, op, rank, start_ns in run.rows("collectives", *columns):
        arrivals.setdefault((group_id, seq, op), {})[rank] = start_ns
    assert {len(starts) for starts in arrivals.values()} == {len(run.ranks)}
    found: dict[str, tuple[int, int]] = {}
    for (_, _, op), starts in arrivals.items():
        late, total = found.get(op, (0, 0))
        found[op] = (late + (max(starts, key=starts.__getitem__) == last), total + 1)
    assert found == of
