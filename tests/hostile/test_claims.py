"""Small files that claim much: ranks, depth, lengths. Each costs little and ends as it should."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import UserError
from ingest.imports.importer import import_paths
from ingest.run import open_run
from tests.hostile.fuzz.seeds import seeds
from tests.reader_results import Imported

Json = dict[str, Any]
MOST_S = 10.0
MOST_BYTES = 300 << 20


@pytest.fixture
def bounded() -> Iterator[None]:
    """The test must stay within what one file may cost."""
    begin_s = time.process_time()
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_BYTES
    assert time.process_time() - begin_s < MOST_S


def kineto(*events: Json, **info: Any) -> str:
    document = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2, **info}}
    return json.dumps({**document, "traceEvents": list(events), "baseTimeNanoseconds": 10**18})


def collective(**args: Any) -> Json:
    described = {"Collective name": "allreduce", "Process Group Name": "7", **args}
    place = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    return {**place, "name": "ncclDevKernel_AllReduce", "args": described}


@pytest.mark.usefixtures("bounded")
def test_many_ranks_in_one_kilobyte(tmp_path: Path, runs: Path) -> None:
    path = tmp_path / "rank-0.json"
    path.write_text(kineto(collective(), world_size=100_000))
    run = Imported(path, into=runs)
    assert run.ranks[0]["world_size"] == 100_000
    assert len(run.ranks) == 1
    path.write_text(kineto(collective(), world_size=10**8))
    assert Imported(path, into=runs / "more").ranks[0]["world_size"] == -1


@pytest.mark.usefixtures("bounded")
def test_many_groups_of_many_ranks_by_start_and_stride(tmp_path: Path, runs: Path) -> None:
    """A hundred bytes each claim 100,000 ranks."""
    names = ("Process Group Name", "Global rank start", "Global rank stride", "Group size")
    events = [
        collective(**dict(zip(names, (str(i), i, 1, 100_000), strict=True))) for i in range(400)
    ]
    path = tmp_path / "rank-0.json"
    path.write_text(kineto(*events))
    run = Imported(path, into=runs)
    sizes = [len(ranks) for (ranks,) in run.rows("groups", "ranks")]
    assert sizes.count(100_000) == 10  # a million members, then no more
    assert len(sizes) == 400


def test_two_files_that_claim_one_rank(tmp_path: Path, runs: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(
            kineto(collective(), rank=5) + (" " if name == "b.json" else "")
        )
    run = Imported(*sorted(tmp_path.glob("*.json")), into=runs)
    assert set(run.ranks) == {5}
    assert "b.json: says it is rank 5, as" in run.problems[0]


DEEP = "[" * 10**6
JSON_FORMATS = (
    "kineto",
    "flight_recorder",
    "megascan",
    "chrome_trace",
    "phase_log",
    "nccl_inspector",
    "nccl_ras",
    "stack_dumps",
)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", JSON_FORMATS)
@pytest.mark.parametrize("what", ["deep", "deep and closed", "long", "keys"])
def test_depth_and_length(tmp_path: Path, runs: Path, kind: str, what: str) -> None:
    """A value nested a million times, or of 20 MB, put where the first object begins."""
    files = [f for f in seeds()[kind] if f[1].lstrip()[:1] in (b"{", b"[")]
    if not files:
        pytest.skip("the seed of this format is a real trace, which is not here")
    name, content = files[0]
    value = {
        "deep": DEEP,
        "deep and closed": DEEP + "]" * 10**6,
        "long": json.dumps("x" * (20 << 20)),
        "keys": '{"a": 1' + ', "a": 1' * 10**6 + "}",
    }[what]
    at = content.index(b"{", 1) + 1 if kind != "phase_log" else content.index(b"{") + 1
    path = tmp_path / name
    path.write_bytes(content[:at] + b'"hostile": ' + value.encode() + b", " + content[at:])
    begin_s = time.process_time()
    try:
        import_paths([path], runs)
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017  # either way is fine
    assert time.process_time() - begin_s < MOST_S


@pytest.mark.parametrize("ends", ["of other names", "of what is buried"])
def test_ends_that_look_for_their_begin(tmp_path: Path, runs: Path, ends: str) -> None:
    """Thousands of open spans, and ends each of which could look through all of them."""
    place = '"pid": 1, "tid": 1'
    buried = [f'{{"ph": "B", "name": "a", "ts": 1, {place}}}'] * 1000
    above = [f'{{"ph": "B", "name": "b", "ts": 1, {place}}}'] * 9000
    name = "x" if ends == "of other names" else "a"
    last = [f'{{"ph": "E", "name": "{name}", "ts": 2, {place}}}'] * 100_000
    path = tmp_path / "a.json"
    path.write_text("[" + ",".join([*buried, *above, *last]) + "]")
    begin_s = time.process_time()
    run = Imported(path, into=runs)
    assert time.process_time() - begin_s < MOST_S
    assert any("ends without a begin left out" in problem for problem in run.problems)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("kind", JSON_FORMATS)
def test_half_a_surrogate_pair_costs_one_letter(tmp_path: Path, runs: Path, kind: str) -> None:
    """JSON can spell it, no file can hold it: in names, hosts, groups, the file's own name."""
    files = [f for f in seeds()[kind] if f[1].lstrip()[:1] in (b"{", b"[")]
    if not files:
        pytest.skip("the seed of this format is a real trace, which is not here")
    _, content = files[0]
    for word in (b'"a"', b'"forward"', b'"x"', b'"mesh_tp"', b'"node1"', b'"y"', b'"AllReduce"'):
        content = content.replace(word, word[:-1] + b'\\ud800"')
    path = tmp_path / "rank-1\udcff.json"
    path.write_bytes(content)
    run = Imported(path, into=runs)
    assert len(run.ranks) == (4 if kind == "nccl_ras" else 1)
    with open_run(run.folder) as opened:  # what was written can be read
        assert opened.problems == []
    assert not [problem for problem in run.problems if "reader failed" in problem]


@pytest.mark.parametrize(
    "text", ["[" * 60_000, "- " * 30_000, "? " * 30_000, "[" * 4000, "- " * 2000]
)
def test_yaml_that_takes_long_to_parse(tmp_path: Path, runs: Path, text: str) -> None:
    path = tmp_path / "meta.yaml"
    path.write_text(f"dp_size: 1\npp_size: 1\ntp_size:\n  {text}\n")
    begin_s = time.process_time()
    with pytest.raises(UserError):
        import_paths([path], runs)
    assert time.process_time() - begin_s < MOST_S / 3


def _parquet(path: Path, **columns: Any) -> Path:
    names = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id")
    good: Json = {name: [0, 0] for name in names} | {"optype": ["optimizer", "gc"]}
    good |= {"start_ts": [0.5, 1.5], "duration": [0.1, 0.1]} | columns
    metadata = {"dp_size": "1", "pp_size": "x" * 10**6, "tp_size": "-1", "\x1b[2J": "\n"}
    pq.write_table(pa.table(good).replace_schema_metadata(metadata), path)
    return path


@pytest.mark.parametrize(
    "columns",
    [
        {"rank": ["a", "b"]},
        {"rank": [None, 1]},
        {"rank": [2**62, -5]},
        {"step": [[1], [2]]},
        {"start_ts": ["x", "y"]},
        {"start_ts": [1e300, float("nan")]},
        {"duration": [-1.0, 1e18]},
        {"optype": [1, 2]},
        {"optype": [None, "gc"]},
        {"optype": ["\x1b[2J\n", "x" * 10**6]},
        {"seq_id": [0.5, 2**53]},
        {"stage": [{"a": 1}, {"a": 2}]},
    ],
)
def test_parquet_of_other_types(tmp_path: Path, runs: Path, columns: Json) -> None:
    path = _parquet(tmp_path / "a.parquet", **columns)
    try:
        folder = import_paths([path], runs)
    except UserError as error:
        assert str(error).isprintable()  # noqa: PT017  # either way is fine
    else:
        assert (folder / "run.json").is_file()
