"""torch.profiler traces: hand-built ones for every trap, and real ones against counted facts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.imports.importer import import_paths
from tests.folders import NO_TRACES, TRACES
from tests.ingest.readers.kineto.profiler_files import (
    BASE_NS,
    Json,
    event,
    step,
    write,
)
from tests.reader_results import Imported
from trace_hooks.schema import TABLES


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


def test_ranks_from_names_folders_and_what_is_left(tmp_path: Path, runs: Path) -> None:
    write(tmp_path / "in" / "x" / "rank-3.host.json", [event("a", 0, 1)], None)
    write(tmp_path / "in" / "x" / "worker5.17.pt.trace.json", [event("b", 0, 1)], None)
    write(tmp_path / "in" / "2" / "trace.json", [event("c", 0, 1)], None)
    write(tmp_path / "in" / "x" / "unnamed.json", [event("d", 0, 1)], None)
    run = Imported(tmp_path / "in", into=runs)
    assert sorted(run.rows("spans", "rank", "name")) == [(0, "d"), (2, "c"), (3, "a"), (5, "b")]
    guesses = " ".join(run.info["guesses"])
    assert "rank-3.host.json: rank 3 is taken from the name of the file" in guesses
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


@pytest.mark.skipif(not REAL, reason=NO_TRACES)
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


@pytest.mark.skipif(not REAL, reason=NO_TRACES)
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
