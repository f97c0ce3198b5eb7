"""The same profile as it comes from other versions, tools and systems: read as the same spans."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.readers.kineto.profiler_files import BASE_NS, Json, collective, event, step
from tests.reader_results import Imported

SEED = 20261121
COLUMNS = (
    "rank",
    "step",
    "ts_ns",
    "dur_ns",
    "kind",
    "name",
    "track",
    "depth",
    "group_id",
    "coll_seq",
    "num_bytes",
)


def profile() -> Json:
    """Two steps of rank 3 with operators, kernels that overlap, copies and collectives."""
    rng = random.Random(SEED)
    events: list[Json] = [
        step(4, 0, 500),
        step(5, 500, 500),
        step(4, 2, 490, "gpu_user_annotation"),
    ]
    for at in range(10, 950, 10):
        events.append(event(f"aten::<{rng.choice('abc')}> & größe", at, rng.randint(1, 30)))
        events.append(event("void k<4, F&>(int)", at + 3, rng.randint(1, 25), "kernel"))
    for at in (300, 600, 900):
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        place = {"tid": 20, "args": collective("allreduce")}
        events.append(event(name, at, 50, "kernel", **place))
    copy = {"args": {"bytes": 4096, "stream": 7}}
    events.append(event("Memcpy HtoD (Pageable -> Device)", 40, 2, "gpu_memcpy", **copy))
    groups = [{"pg_name": "7", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]
    info = {"backend": "nccl", "rank": 3, "world_size": 8, "pg_count": 1, "pg_config": groups}
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "GPU"}],
        "distributedInfo": info,
        "traceEvents": events,
        "traceName": "rank-3.json",
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
    }


def text_of(document: Any, **style: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, **style).encode()


def with_events(change: Callable[[list[Json]], list[Any]]) -> bytes:
    document = profile()
    return text_of({**document, "traceEvents": change(document["traceEvents"])})


def with_info(**changed: Any) -> bytes:
    document = profile()
    return text_of({**document, "distributedInfo": {**document["distributedInfo"], **changed}})


def among_others(events: list[Json]) -> list[Any]:
    """What other tools and versions put between: unknown phases, no category, odd ids, no pid."""
    odd: list[Any] = [
        {"ph": phase, "name": "odd", "ts": 1, "pid": 1, "tid": 1, "id": "0x1f", "cat": cat}
        for phase in "MNDOPCiIRabenstfvV(,)="
        for cat in ("", "cpu_op", None)
    ]
    odd += [{}, {"ph": None}, {"ph": "M", "name": "process_labels", "args": {"labels": "GPU 0"}}]
    odd += [{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1}]
    odd += [event("PyTorch Profiler (0)", 0, 1000, "Trace", pid="Spans", tid="PyTorch Profiler")]
    return [one for pair in zip(events, odd * 9, strict=False) for one in pair]


def on_threads(events: list[Json]) -> list[Any]:
    """Each step once more on another thread, later and shorter."""
    marks = [e for e in events if e["name"].startswith("ProfilerStep") and "tid" in e]
    again = [{**e, "tid": 77, "ts": e["ts"] + 1, "dur": e["dur"] - 2} for e in marks]
    return again + events


def as_text(events: list[Json]) -> list[Any]:
    return [{**e, "ts": f"{e['ts']:.3f}", "dur": str(e["dur"])} for e in events]


def shuffled(events: list[Json]) -> list[Any]:
    random.Random(SEED).shuffle(events)
    return events


PLAIN = text_of(profile())
VARIANTS: dict[str, bytes] = {
    "pretty": text_of(profile(), indent=2),
    "dense": text_of(profile(), separators=(",", ":")),
    "lines ended as on Windows": text_of(profile(), indent=1).replace(b"\n", b"\r\n"),
    "only ASCII": json.dumps(profile()).encode(),
    "a byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "UTF-16 as PowerShell saves": b"\xff\xfe" + PLAIN.decode().encode("utf-16-le"),
    "UTF-16, big end first": b"\xfe\xff" + PLAIN.decode().encode("utf-16-be"),
    "gzip": gzip.compress(PLAIN),
    "gzip of several members": gzip.compress(PLAIN[:5000]) + gzip.compress(PLAIN[5000:]),
    "gzip with padding": gzip.compress(PLAIN) + b"\0" * 512,
    "events last": text_of(
        {
            **{k: v for k, v in profile().items() if k != "traceEvents"},
            "traceEvents": profile()["traceEvents"],
        }
    ),
    "events first": text_of({"traceEvents": profile()["traceEvents"], **profile()}),
    "times as text": with_events(as_text),
    "another order": with_events(shuffled),
    "among events of other kinds": with_events(among_others),
    "steps on several threads": with_events(on_threads),
    "ns named as the unit": text_of({**profile(), "displayTimeUnit": "ns"}),
    "much in the header": text_of(
        {"schemaVersion": 1, "deviceProperties": [], "x": "y" * (2 << 20), **profile()}
    ),
    "odd values in the header": text_of(
        {
            **profile(),
            "host_name": None,
            "with_stack": [1, {}],
            "record_shapes": 1,
            "trace_id": "é\u2028",
        }
    ),
    "ranks of groups as text": with_info(
        pg_config=[{"pg_name": "7", "pg_desc": "undefined", "ranks": "[0, 1]"}]
    ),
    "no world size": with_info(world_size=None, backend="undefined"),
    "rank as text": with_info(rank="3", world_size="8"),
    "groups of no known shape": with_info(pg_config={"7": "?"}, pg_count="x"),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "rank-3.json").write_bytes(PLAIN)
    run = Imported(folder / "rank-3.json", into=folder / "runs")
    spans = run.rows("spans", *COLUMNS)
    assert len(spans) == 94 * 2 + 4
    assert {row[1] for row in spans} == {4, 5}
    return sorted(spans)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_profile_in_another_shape(
    name: str, tmp_path: Path, runs: Path, expected: list[tuple[Any, ...]]
) -> None:
    path = tmp_path / "some.trace"
    path.write_bytes(VARIANTS[name])
    run = Imported(path, into=runs)
    assert run.info["source"] == "kineto"
    assert sorted(run.rows("spans", *COLUMNS)) == expected
    assert run.rows("steps", "step", "dur_ns") == [(4, 500_000), (5, 500_000)]
    assert run.problems == []


def test_a_bare_list_has_no_base_and_no_rank(
    tmp_path: Path, runs: Path, expected: list[tuple[Any, ...]]
) -> None:
    (tmp_path / "x_rank_3_of_8.json").write_bytes(text_of(profile()["traceEvents"]))
    run = Imported(tmp_path / "x_rank_3_of_8.json", into=runs)
    rows = sorted(run.rows("spans", "rank", "ts_ns", "dur_ns", "name"))
    base_ns = min(row[1] for row in rows) - min(row[2] for row in expected)
    assert rows == sorted((row[0], row[2] + base_ns, row[3], row[5]) for row in expected)
    assert run.info["clock"] == "unknown"


def tarred(members: dict[str, bytes], mode: str, kind: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode, format=kind) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


MEMBERS = {
    "./job ü/rank-3.json.gz": gzip.compress(PLAIN),
    "./job ü/._rank-3.json.gz": b"\x00\x05\x16\x07 what macOS puts next to files",
    "__MACOSX/job ü/._rank-3.json.gz": b"\x00\x05\x16\x07",
    "./job ü/.DS_Store": b"\x00\x00\x00\x01Bud1",
}
ARCHIVES = {
    "pax": tarred(MEMBERS, "w:gz", tarfile.PAX_FORMAT),
    "gnu": tarred(MEMBERS, "w", tarfile.GNU_FORMAT),
    "ustar": tarred(MEMBERS, "w", tarfile.USTAR_FORMAT),
    "zip": zipped(MEMBERS),
    "zip of Windows": zipped({name.replace("/", "\\"): v for name, v in list(MEMBERS.items())[:1]}),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_the_same_profile_in_archives_of_other_systems(
    name: str, tmp_path: Path, runs: Path, expected: list[tuple[Any, ...]]
) -> None:
    (tmp_path / "job").write_bytes(ARCHIVES[name])
    run = Imported(tmp_path / "job", into=runs)
    assert sorted(run.rows("spans", *COLUMNS)) == expected
    assert run.problems == []


def test_a_folder_as_jobs_leave_it(
    tmp_path: Path, runs: Path, expected: list[tuple[Any, ...]]
) -> None:
    """Traces lie below the files about them; only what could have been a trace is a problem."""
    folder = tmp_path / "in"
    for name, content in {
        "README.md": b"# last night's job\n",
        "conf/train.yaml": b"lr: 1\n",
        "logs/3/trace.json": PLAIN.replace(b'"rank": 3', b'"rank": null'),
        "logs/3/.trace.json.swp": b"b0VIM 8.2",
        "events.out.tfevents.17": b"\x18\0\0\0\0\0\0\0\xa3",
        "empty": b"",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    run = Imported(folder, into=runs)
    assert sorted(run.rows("spans", *COLUMNS)) == expected
    assert len(run.problems) == 4
    assert all(problem.endswith("left out") for problem in run.problems)


@pytest.mark.parametrize(
    "name",
    [
        "dp0_pp0_tp3_dcp0_ep3_rank3.1776.pt.trace.json.gz",
        "rank3_trace.json.gz",
        "Rank-003.json",
        "worker3.1694128201554.pt.trace.json",
        "node1-worker3_step_12.17.pt.trace.json",
        "trace_rank_3.json",
        "pytorch_profiler_rank 3.json",
        "global_rank3.json",
    ],
)
def test_ranks_in_names_that_tools_give(name: str, tmp_path: Path, runs: Path) -> None:
    content = PLAIN.replace(b'"rank": 3', b'"rank": null')
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert set(Imported(tmp_path / name, into=runs).ranks) == {3}


@pytest.mark.parametrize("num_blocks", [0, -1])
def test_a_file_that_is_still_written_begins_with_the_others(
    tmp_path: Path, runs: Path, num_blocks: int
) -> None:
    """PyTorch writes baseTimeNanoseconds behind the events; a job's files may have two of them."""
    cut, other = profile(), profile()
    block_s = 7_889_238
    for moved in other["traceEvents"]:
        moved["ts"] += 5e6 - num_blocks * block_s * 1e6
    other["baseTimeNanoseconds"] += num_blocks * block_s * 10**9
    other["distributedInfo"]["rank"] = 4
    files = tmp_path / "job"
    files.mkdir()
    text = text_of(cut)
    (files / "rank-3.json").write_bytes(text[: text.index(b'], "traceName"')])
    alone = Imported(files / "rank-3.json", into=runs)
    assert alone.info["clock"] == "unknown"
    (files / "rank-4.json").write_bytes(text_of(other))
    run = Imported(files, into=runs)
    assert run.info["clock"] == "absolute"
    assert "cut off at byte" in run.problems[0]
    assert any("rank-3.json: its base time was cut off" in guess for guess in run.guesses)
    began_ns = [run.ranks[rank]["started_ns"] for rank in (3, 4)]
    assert began_ns[1] - began_ns[0] == 5 * 10**9
    assert min(run.rows("spans", "ts_ns")) == (began_ns[0] + 10_000,)  # the step began first


def test_operators_of_two_processes_are_no_rank(tmp_path: Path, runs: Path) -> None:
    events = [event("aten::mm", at, 5, pid=pid) for at, pid in ((10, 77), (12, 1077))]
    path = tmp_path / "merged.json"
    path.write_bytes(text_of({**profile(), "traceEvents": events}))
    (problem,) = Imported(path, into=runs).problems
    assert "holds operators of 2 processes" in problem


@pytest.mark.parametrize("category", ["mtia_ccp_events", "hpu_op"])
def test_kernels_of_other_devices(category: str, tmp_path: Path, runs: Path) -> None:
    path = tmp_path / "rank-3.json"
    path.write_bytes(text_of({**profile(), "traceEvents": [event("mm", 10, 5, category)]}))
    assert Imported(path, into=runs).rows("spans", "kind") == [("kernel",)]
