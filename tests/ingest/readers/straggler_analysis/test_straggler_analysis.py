"""StragglerAnalysis traces: a hand-built 2 x 2 job and the real ones."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ingest.errors import UserError
from ingest.imports.importer import import_paths
from tests.folders import NO_TRACES, TRACES

STRAGGLER_TRACES = TRACES / "straggler_analysis"
SIZES = {"dp_size": 2, "dsp_size": 1, "pp_size": 2, "tp_size": 4, "vpp_size": 1, "world_size": 16}
OPS = (("forward-compute", 0.5, 1.0, 3), ("grads-reduce-scatter", 1.25, 0.5, 3), ("gc", 1.5, 0, 0))


def _table() -> pa.Table:
    """Two steps of stages 0, 1 and data-parallel ranks 0, 1; only the first TP rank of each."""
    rows = [
        {
            "dp_rank": dp,
            "stage": stage,
            "rank": stage * 8 + dp * 4,
            "step": step,
            "optype": optype,
            "start_ts": start,
            "duration": duration,
            "seq_id": 0,
            "mc": 0,
            "mb_id": microbatch,
            "gmc": stage,
        }
        for step in (23, 40)
        for stage in (0, 1)
        for dp in (0, 1)
        for optype, start, duration, microbatch in OPS
    ]
    small = {"start_ts": pa.float32(), "duration": pa.float32(), "dp_rank": pa.int8()}
    fields = [(name, small.get(name, pa.array([value]).type)) for name, value in rows[0].items()]
    table = pa.Table.from_pylist(rows, pa.schema(fields))
    at = table.column_names.index("optype")
    return table.set_column(at, "optype", table["optype"].dictionary_encode())


def _write(folder: Path, sizes: dict[str, int] | None = SIZES, name: str = "trace-X") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.parquet"
    pq.write_table(_table(), path)
    if sizes is not None:
        (folder / f"{name.replace('trace', 'meta')}.yaml").write_text(yaml.safe_dump(sizes))
    return path


class Imported:
    """What an import wrote."""

    def __init__(self, path: Path, into: Path) -> None:
        folder = import_paths([path], into)
        self.info = json.loads((folder / "run.json").read_text())
        self.ranks = [json.loads(p.read_text()) for p in sorted((folder / "ranks").iterdir())]
        self.segments = folder / "segments"

    def rows(self, table: str) -> list[dict[str, Any]]:
        files = sorted(self.segments.glob(f"{table}-*.parquet"))
        return [row for path in files for row in pq.read_table(path).to_pylist()]


def test_operations_become_spans(tmp_path: Path, runs: Path) -> None:
    run = Imported(_write(tmp_path / "in"), runs)
    assert run.info["source"] == "straggler_analysis"
    assert run.info["clock"] == "per_step_relative"
    assert run.info["guesses"] == run.info["problems"] == []
    spans = run.rows("spans")
    assert len(spans) == _table().num_rows
    first = [s for s in spans if (s["rank"], s["step"]) == (12, 23)]
    columns = ("name", "kind", "ts_ns", "dur_ns", "depth", "microbatch", "chunk")
    assert [tuple(span[c] for c in columns) for span in first] == [
        ("forward-compute", "forward", 500_000_000, 1_000_000_000, 0, 3, 1),
        ("grads-reduce-scatter", "dp_comm", 1_250_000_000, 500_000_000, 0, -1, 1),
        ("gc", "gc", 1_500_000_000, 0, 0, -1, 1),
    ]
    steps = {(s["rank"], s["step"], s["start_ns"], s["dur_ns"]) for s in run.rows("steps")}
    assert steps == {
        (rank, step, 500_000_000, 1_250_000_000) for rank in (0, 4, 8, 12) for step in (23, 40)
    }


def test_ranks_that_are_not_there_are_not_invented(tmp_path: Path, runs: Path) -> None:
    run = Imported(_write(tmp_path / "in"), runs)
    assert [info["rank"] for info in run.ranks] == [0, 4, 8, 12]
    assert {info["world_size"] for info in run.ranks} == {16}
    assert run.ranks[3]["layout"]["axes"] == {"pp": 2, "dp": 2, "tp": 4}
    assert run.ranks[3]["coords"] == {"pp": 1, "dp": 1, "tp": 0}


def test_data_parallel_collectives_match_on_all_members(tmp_path: Path, runs: Path) -> None:
    run = Imported(_write(tmp_path / "in"), runs)
    members: dict[tuple[int, int, int], set[int]] = {}
    for row in run.rows("collectives"):
        assert row["op"] == "reduce_scatter"
        members.setdefault((row["group_id"], row["seq"], row["step"]), set()).add(row["rank"])
    assert sorted(map(sorted, members.values())) == [[0, 4], [0, 4], [8, 12], [8, 12]]
    assert {tuple(group["ranks"]) for group in run.rows("groups")} == {(0, 4), (8, 12)}


def test_sizes_from_the_parquet_metadata(tmp_path: Path, runs: Path) -> None:
    path = _write(tmp_path / "in", sizes=None)
    for metadata in ({"meta": json.dumps(SIZES)}, {k: str(v) for k, v in SIZES.items()}):
        pq.write_table(_table().replace_schema_metadata(metadata), path)
        assert Imported(path, runs).ranks[0]["layout"]["axes"]["tp"] == 4


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (None, "no yaml with its sizes was found"),
        ({**SIZES, "tp_size": 2, "world_size": 8}, "do not fit the ranks"),
        ({**SIZES, "world_size": 99}, "do not fit the ranks"),
        ({**SIZES, "pp_size": 0}, "the sizes do not give a layout"),
    ],
)
def test_no_layout_is_invented(
    tmp_path: Path, runs: Path, sizes: dict[str, int] | None, message: str
) -> None:
    run = Imported(_write(tmp_path / "in", sizes), runs)
    assert run.ranks[0]["layout"] is None
    assert len(run.rows("spans")) == _table().num_rows
    assert any(message in text for text in run.info["guesses"] + run.info["problems"])


def test_a_folder_and_an_archive_of_one_trace(tmp_path: Path, runs: Path) -> None:
    path = _write(tmp_path / "in")
    assert len(Imported(path.parent, runs).ranks) == 4
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add(path.parent, "in")
    (tmp_path / "in.tar.gz").write_bytes(archive.getvalue())
    run = Imported(tmp_path / "in.tar.gz", runs)
    assert run.ranks[0]["layout"]["axes"] == {"pp": 2, "dp": 2, "tp": 4}


def test_operations_without_a_time_are_left_out(tmp_path: Path, runs: Path) -> None:
    path = _write(tmp_path / "in")
    table = _table()
    starts = [float("nan"), None, *table["start_ts"].to_pylist()[2:]]
    at = table.column_names.index("start_ts")
    pq.write_table(table.set_column(at, "start_ts", pa.array(starts, pa.float32())), path)
    run = Imported(path, runs)
    assert len(run.rows("spans")) == table.num_rows - 2
    assert "2 operations left out because they have no time" in run.info["problems"][0]


def test_two_traces_in_a_folder_are_two_runs(tmp_path: Path, runs: Path) -> None:
    _write(tmp_path / "in", name="trace-X")
    _write(tmp_path / "in", name="trace-Y")
    with pytest.raises(UserError, match="2 separate traces; import one of them"):
        import_paths([tmp_path / "in"], runs)


def test_a_damaged_file_is_refused_with_a_sentence(tmp_path: Path, runs: Path) -> None:
    path = _write(tmp_path / "in")
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(UserError, match="no trace could be read"):
        import_paths([path], runs)


@pytest.mark.skipif(not STRAGGLER_TRACES.is_dir(), reason=NO_TRACES)
@pytest.mark.parametrize(
    ("trial", "num_ranks", "num_spans", "axes"),
    [
        ("ST", 8, 6784, {"pp": 4, "dp": 2, "tp": 1}),
        ("SE", 64, 107328, {"pp": 2, "dp": 32, "cp": 2, "tp": 1}),
        ("AR", 16, 117216, {"pp": 4, "dp": 4, "tp": 4}),
    ],
)
def test_the_real_traces(
    trial: str, num_ranks: int, num_spans: int, axes: dict[str, int], runs: Path
) -> None:
    path = STRAGGLER_TRACES / f"trace-{trial}.parquet"
    run = Imported(path, runs)
    assert len(run.ranks) == num_ranks
    assert run.ranks[0]["layout"]["axes"] == axes
    assert run.info["problems"] == []
    table = pq.read_table(path)
    expected = np.rint(np.asarray(table["start_ts"], np.float64) * 1e9).astype(np.int64)
    found = [
        pq.read_table(p, columns=["ts_ns"])["ts_ns"].to_numpy()
        for p in run.segments.glob("spans-*.parquet")
    ]
    assert np.array_equal(np.sort(np.concatenate(found)), np.sort(expected))
    assert len(expected) == num_spans


def test_sizes_alone_are_no_trace(tmp_path: Path, runs: Path) -> None:
    (tmp_path / "meta-X.yaml").write_text(yaml.safe_dump(SIZES))
    with pytest.raises(UserError, match="holds the sizes of a trace that was not given"):
        import_paths([tmp_path / "meta-X.yaml"], runs)


@pytest.mark.parametrize(
    ("column", "value"), [("rank", 2**40), ("rank", -1), ("stage", 2**40), ("mb_id", 2**40)]
)
def test_numbers_no_job_has_cost_their_operation(
    tmp_path: Path, runs: Path, column: str, value: int
) -> None:
    path = _write(tmp_path / "in", sizes=None)
    table = _table()
    numbers = [value, *table[column].to_pylist()[1:]]
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, column, pa.array(numbers, pa.int64())), path)
    run = Imported(path, runs)
    assert len(run.rows("spans")) == table.num_rows - 1
    assert any(
        "1 operations left out because they have an impossible rank, step" in p
        for p in run.info["problems"]
    )
